#include "base/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/units.h"

namespace strata {
namespace {

std::string dashed(std::string_view name) {
  return fmt::format("--{}", name);
}

std::string where_to_read(const CommandSpec& command) {
  return fmt::format("see strata {} --help", command.name);
}

std::string quoted(const std::string& text) {
  return fmt::format("'{}'", one_line(text, 60));
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

const OptionSpec* find_option(const CommandSpec& command, std::string_view name) {
  for (const OptionSpec& option : option_table()) {
    if ((option.commands & command.bit) != 0 && name == option.name) return &option;
  }
  return nullptr;
}

// Steps from one word to the other: insert, remove, replace, or swap neighbours.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

Status unknown_option(const CommandSpec& command, const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  const std::string_view bare = std::string_view(name).substr(name.starts_with("--") ? 2 : 1);
  std::vector<std::string> names;
  for (const OptionSpec& option : option_table()) {
    if ((option.commands & command.bit) != 0) names.emplace_back(option.name);
  }
  std::string message = fmt::format("strata {} has no option {}", command.name, one_line(name, 60));
  const std::string near = nearest_name(bare, names);
  if (!near.empty())
    return {Code::invalid_argument, message, fmt::format("did you mean --{}? {}", near, where_to_read(command))};
  for (const CommandSpec& other : command_table()) {
    if (find_option(other, bare) == nullptr) continue;
    message += fmt::format(" (strata {} has)", other.name);
    break;
  }
  return {Code::invalid_argument, message, where_to_read(command)};
}

Status check_value(const OptionSpec& option, const std::string& value) {
  const std::string what = fmt::format("option --{}", option.name);
  switch (option.type) {
    case OptionType::integer:
      return parse_integer(value, static_cast<int64_t>(option.min), static_cast<int64_t>(option.max), what).status();
    case OptionType::number:
      return parse_number(value, option.min, option.max, what).status();
    case OptionType::choice: {
      const std::vector<std::string> choices = split(option.choices, '|');
      if (std::find(choices.begin(), choices.end(), value) != choices.end()) return {};
      return {Code::invalid_argument,
              fmt::format("{}: {} is none of {}", what, quoted(value), fmt::join(choices, ", "))};
    }
    case OptionType::file:
      if (value.empty()) return {Code::invalid_argument, what + ": the name of the file is empty"};
      return {};
    case OptionType::text:
    case OptionType::flag:
      return {};
  }
  return {};
}

std::string placeholder_of(const OptionSpec& option) {
  return option.type == OptionType::choice ? option.choices : option.value;
}

Status check_option(const CommandSpec& command, const OptionSpec& option, const std::vector<std::string>& values) {
  if (option.required && values.empty()) {
    return {Code::invalid_argument,
            fmt::format("strata {} needs {} {}", command.name, dashed(option.name), option.value)};
  }
  if (values.size() > 1 && !option.repeatable && option.type != OptionType::flag) {
    return {Code::invalid_argument, fmt::format("option {} is given {} times ({}); it takes one value",
                                                dashed(option.name), values.size(), fmt::join(values, ", "))};
  }
  for (const std::string& value : values) {
    const std::string name = value.starts_with("--") ? value.substr(2, value.find('=') - 2) : "";
    if (find_option(command, name) != nullptr) {
      return {Code::invalid_argument, fmt::format("option {} needs a value ({}), found the option {}",
                                                  dashed(option.name), placeholder_of(option), dashed(name))};
    }
    RETURN_IF_ERROR(check_value(option, value));
  }
  return {};
}

using Values = std::map<std::string, std::vector<std::string>, std::less<>>;

// "--name value", "--name=value" and "--flag" anywhere; what does not begin with a dash, or follows "--", is an
// argument.
Status split_arguments(const CommandSpec& command, const std::vector<std::string>& args, Values& values,
                       std::vector<std::string>& arguments) {
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (arg == "--") {
      arguments.insert(arguments.end(), args.begin() + static_cast<std::ptrdiff_t>(i) + 1, args.end());
      return {};
    }
    const bool number = arg.size() > 1 && arg[0] == '-' && ((arg[1] >= '0' && arg[1] <= '9') || arg[1] == '.');
    if (arg.size() < 2 || arg[0] != '-' || number) {
      arguments.push_back(arg);
      continue;
    }
    const size_t equals = arg.starts_with("--") ? arg.find('=') : std::string::npos;
    const OptionSpec* option =
        arg.starts_with("--") ? find_option(command, std::string_view(arg).substr(2, equals - 2)) : nullptr;
    if (option == nullptr) return unknown_option(command, arg);
    if (option->type == OptionType::flag) {
      if (equals != std::string::npos)
        return {Code::invalid_argument, fmt::format("option --{} takes no value", option->name)};
      values[option->name].emplace_back("on");
    } else if (equals != std::string::npos) {
      values[option->name].push_back(arg.substr(equals + 1));
    } else if (i + 1 == args.size() || args[i + 1] == "--") {
      return {Code::invalid_argument,
              fmt::format("option --{} needs a value ({})", option->name, placeholder_of(*option))};
    } else {
      values[option->name].push_back(args[++i]);
    }
  }
  return {};
}

}  // namespace

ExitCode exit_code_of(Code code) {
  switch (code) {
    case Code::ok:
      return ExitCode::ok;
    case Code::invalid_argument:
    case Code::out_of_range:
      return ExitCode::usage;
    case Code::not_found:
    case Code::io:
    case Code::corrupt:
    case Code::unsupported:
      return ExitCode::file;
    case Code::cancelled:
      return ExitCode::interrupted;
    case Code::out_of_memory:
    case Code::failed:
      return ExitCode::failed;
  }
  return ExitCode::failed;
}

Result<int64_t> parse_integer(const std::string& text, int64_t min, int64_t max, const std::string& what) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const bool too_big = error == std::errc::result_out_of_range && rest == end;
  if (!too_big && (error != std::errc() || rest != end)) {
    return Status(Code::invalid_argument, fmt::format("{}: {} is not a whole number", what, quoted(text)));
  }
  if (too_big || value < min || value > max) {
    return Status(Code::out_of_range, fmt::format("{}: {} is outside {} to {}", what, one_line(text, 60), min, max));
  }
  return value;
}

Result<double> parse_number(const std::string& text, double min, double max, const std::string& what) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const bool too_big = error == std::errc::result_out_of_range && rest == end;
  if (!too_big && (error != std::errc() || rest != end || !std::isfinite(value))) {
    return Status(Code::invalid_argument, fmt::format("{}: {} is not a number", what, quoted(text)));
  }
  if (too_big || value < min || value > max) {
    return Status(Code::out_of_range,
                  fmt::format("{}: {} is outside {:g} to {:g}", what, one_line(text, 60), min, max));
  }
  return value;
}

std::string nearest_name(std::string_view typed, std::span<const std::string> names) {
  if (typed.empty() || typed.size() > 100) return "";
  std::string best;
  size_t best_distance = std::max<size_t>(1, typed.size() / 3) + 1;
  for (const std::string& name : names) {
    size_t distance = edit_distance(typed, name);
    if (typed.size() >= 2 && name.starts_with(typed)) distance = 0;
    if (distance < best_distance) {
      best = name;
      best_distance = distance;
    }
  }
  return best;
}

Result<const CommandSpec*> find_command(const std::string& name) {
  std::vector<std::string> names;
  for (const CommandSpec& command : command_table()) {
    if (name == command.name) return &command;
    names.emplace_back(command.name);
  }
  const std::string near = nearest_name(name, names);
  std::string hint = "see strata --help";
  if (name.starts_with("-")) {
    return Status(Code::invalid_argument,
                  fmt::format("{} is not an option of strata itself; a command comes first", quoted(name)), hint);
  }
  if (!near.empty())
    hint = fmt::format("did you mean {}? {}", near, hint);
  else if (name.find(' ') != std::string::npos)
    hint = "to send a prompt: strata run \"PROMPT\"";
  return Status(Code::invalid_argument, fmt::format("there is no command {}", quoted(name)), hint);
}

Result<Options> parse_options(const CommandSpec& command, const std::vector<std::string>& args) {
  Options options;
  options.command_ = &command;
  const auto with_hint = [&](const Status& s) {
    return Status(s.code(), s.message(), s.hint().empty() ? where_to_read(command) : s.hint());
  };
  if (Status s = split_arguments(command, args, options.values_, options.arguments_); !s.ok()) return with_hint(s);
  for (const OptionSpec& option : option_table()) {
    if ((option.commands & command.bit) == 0) continue;
    if (Status s = check_option(command, option, options.values_[option.name]); !s.ok()) return with_hint(s);
  }
  if (options.arguments_.empty() && command.needs_argument) {
    return with_hint({Code::invalid_argument, fmt::format("strata {} needs {}", command.name, command.argument)});
  }
  if (options.arguments_.size() > command.max_arguments) {
    const std::string takes = command.max_arguments == 0 ? "no argument" : fmt::format("one {}", command.argument);
    return Status(Code::invalid_argument,
                  fmt::format("strata {} takes {}, found {} ({})", command.name, takes, options.arguments_.size(),
                              one_line(fmt::format("{}", fmt::join(options.arguments_, ", ")), 60)),
                  command.surplus_hint);
  }
  return options;
}

const OptionSpec& Options::spec(std::string_view name) const {
  const OptionSpec* option = command_ == nullptr ? nullptr : find_option(*command_, name);
  CHECK(option != nullptr, "option {} is not declared for this command", name);
  return *option;
}

bool Options::given(std::string_view name) const {
  return !values_.find(spec(name).name)->second.empty();
}

const std::vector<std::string>& Options::texts(std::string_view name) const {
  return values_.find(spec(name).name)->second;
}

int64_t Options::integer(std::string_view name) const {
  const OptionSpec& option = spec(name);
  CHECK(option.type == OptionType::integer, "--{} is not an integer", name);
  const std::string value = given(name) ? texts(name).front() : option.preset;
  return *parse_integer(value, static_cast<int64_t>(option.min), static_cast<int64_t>(option.max), dashed(name));
}

double Options::number(std::string_view name) const {
  const OptionSpec& option = spec(name);
  CHECK(option.type == OptionType::number, "--{} is not a number", name);
  return *parse_number(given(name) ? texts(name).front() : option.preset, option.min, option.max, dashed(name));
}

std::optional<double> Options::number_if_given(std::string_view name) const {
  if (!given(name)) return std::nullopt;
  return spec(name).type == OptionType::integer ? static_cast<double>(integer(name)) : number(name);
}

std::string Options::text(std::string_view name) const {
  const OptionSpec& option = spec(name);
  return given(name) ? texts(name).front() : option.preset;
}

std::string model_from_environment() {
  const char* value = std::getenv("STRATA_MODEL");
  return value == nullptr ? "" : value;
}

}  // namespace strata
