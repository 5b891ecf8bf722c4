// The text forms of the option table: what --help prints, and docs/options.md.
#include <fmt/format.h>

#include <algorithm>

#include "base/options.h"

namespace strata {
namespace {

constexpr size_t kWidth = 100;  // columns of help
constexpr size_t kColumn = 26;  // where explanations begin
constexpr const char* kHelpOption = "-h, --help";

constexpr struct {
  OptionGroup group;
  const char* title;
} kGroups[] = {
    {OptionGroup::behaviour, "Behaviour"},
    {OptionGroup::performance, "Performance"},
    {OptionGroup::debug, "Debug"},
};

constexpr const char* kExitCodes[][2] = {
    {"0", "done"},
    {"1", "the run failed: not enough memory, a computation that went wrong, an output that could not be written"},
    {"2", "the command line or the request cannot be served as written"},
    {"3", "a model or another file is missing, damaged or of a kind that cannot be used"},
    {"130", "interrupted (Ctrl-C)"},
};

// `text` broken at blanks, each line but the first indented.
std::string wrapped(std::string_view text, size_t indent, size_t column) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t end = std::min(text.find_first_of(" \n", i), text.size());
    const size_t word = end - i;
    if (column > indent && column + 1 + word > kWidth) {
      out.append(1, '\n').append(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += text.substr(i, word);
    column += word;
    i = end + 1;
    if (end < text.size() && text[end] == '\n') {
      out.append(1, '\n').append(indent, ' ');
      column = indent;
    }
  }
  return out;
}

std::string entry(const std::string& name, const std::string& text) {
  std::string out = "  " + name;
  if (out.size() + 2 > kColumn)
    out += "\n" + std::string(kColumn, ' ');
  else
    out.resize(kColumn, ' ');
  return out + wrapped(text, kColumn, kColumn) + "\n";
}

std::string indented(std::string_view lines) {
  std::string out = "  ";
  for (const char c : lines) {
    out += c;
    if (c == '\n') out += "  ";
  }
  return out + "\n";
}

std::string value_of(const OptionSpec& option) {
  return option.type == OptionType::choice ? option.choices : option.value;
}

std::string range_of(const OptionSpec& option) {
  if (option.type != OptionType::integer && option.type != OptionType::number) return "";
  if (option.type == OptionType::integer && option.max >= 2147483647) return fmt::format("at least {:.0f}", option.min);
  return fmt::format("{:g} to {:g}", option.min, option.max);
}

std::string default_of(const OptionSpec& option) {
  if (option.required) return "required";
  return option.type == OptionType::flag ? "off" : option.preset[0] != '\0' ? option.preset : option.automatic;
}

std::string explanation(const OptionSpec& option) {
  std::string text = option.help;
  std::string facts = range_of(option);
  if (option.unit[0] != '\0') facts = fmt::format("in {}, {}", option.unit, facts);
  if (option.repeatable) facts += "may be repeated";
  if (option.required)
    facts += "required";
  else if (option.type != OptionType::flag)
    facts += (facts.empty() ? "default: " : "; default: ") + default_of(option);
  return facts.empty() ? text : text + " (" + facts + ")";
}

}  // namespace

std::string overview_text() {
  std::string out =
      "strata runs mixture-of-experts language models of the qwen4exp kind.\n\n"
      "Try:  strata run \"Tell me a short story about a fox.\"\n\nCommands:\n";
  for (const CommandSpec& command : command_table()) out += entry(command.name, command.summary);
  out += "\nOptions:\n" + entry(kHelpOption, "this text; strata COMMAND --help: the options of a command");
  out += entry("--version", "the version of this program");
  out += "\nExit codes:\n";
  for (const auto& [code, meaning] : kExitCodes) out += entry(code, meaning);
  return out;
}

std::string help_text(const CommandSpec& command) {
  const bool takes_argument = command.argument[0] != '\0';
  std::string out = fmt::format("usage: strata {} [options]{}\n\n", command.name,
                                command.needs_argument ? fmt::format(" {}", command.argument)
                                : takes_argument       ? fmt::format(" [{}]", command.argument)
                                                       : "");
  out += wrapped(command.description, 0, 0) + "\n";
  if (takes_argument) out += "\n" + entry(command.argument, command.argument_help);
  for (const auto& [group, title] : kGroups) {
    std::string lines;
    for (const OptionSpec& option : option_table()) {
      if (option.group != group || (option.commands & command.bit) == 0) continue;
      const std::string value = value_of(option);
      lines += entry(fmt::format("--{}{}{}", option.name, value.empty() ? "" : " ", value), explanation(option));
    }
    if (group == OptionGroup::behaviour) lines += entry(kHelpOption, "this text");
    if (!lines.empty()) out += fmt::format("\n{}:\n{}", title, lines);
  }
  return out + "\nExamples:\n" + indented(command.examples);
}

std::string options_markdown() {
  const auto cell = [](std::string text) {
    for (size_t i = 0; (i = text.find('|', i)) != std::string::npos; i += 2) text.replace(i, 1, "\\|");
    return text;
  };
  std::string out =
      "# Options\n\nGenerated from the table in `src/base/options_table.cpp`: `build/release/strata options-md` prints "
      "it anew. "
      "The same texts are in `strata COMMAND --help`.\n";
  for (const CommandSpec& command : command_table()) {
    out += fmt::format("\n## strata {}\n\n{}\n", command.name, command.description);
    if (command.argument[0] != '\0') out += fmt::format("\n`{}`: {}.\n", command.argument, command.argument_help);
    out += "\n| option | meaning | range | default | group |\n|---|---|---|---|---|\n";
    for (const OptionSpec& option : option_table()) {
      if ((option.commands & command.bit) == 0) continue;
      const std::string value = value_of(option), range = range_of(option);
      const std::string unit = option.unit[0] == '\0' ? "" : fmt::format(" ({})", option.unit);
      out += fmt::format("| `--{}{}` | {}{} | {}{} | {} | {} |\n", option.name, value.empty() ? "" : cell(" " + value),
                         cell(option.help), option.repeatable ? "; may be repeated" : "", range, unit,
                         cell(default_of(option)),
                         option.group == OptionGroup::behaviour     ? "behaviour"
                         : option.group == OptionGroup::performance ? "performance"
                                                                    : "debug");
    }
    out += fmt::format("\n```\n{}\n```\n", command.examples);
  }
  out +=
      "\n## Environment\n\n| variable | meaning |\n|---|---|\n"
      "| `STRATA_MODEL` | the model of commands that are given none |\n\n## Exit codes\n\n| code | meaning "
      "|\n|---|---|\n";
  for (const auto& [code, meaning] : kExitCodes) out += fmt::format("| {} | {} |\n", code, meaning);
  return out;
}

}  // namespace strata
