// Every option and every command, declared once (options_table.cpp): the command line, the help, docs/options.md and
// the typed look-ups all come from that table. The only place that reads environment variables. A wrong command line is
// a Status that names the option, what was expected and found, and where to read on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace strata {

// What the process returns to the shell.
enum class ExitCode : int { ok = 0, failed = 1, usage = 2, file = 3, interrupted = 130 };
ExitCode exit_code_of(Code code);

enum class OptionType : uint8_t { flag, integer, number, choice, text, file };
enum class OptionGroup : uint8_t { behaviour, performance, debug };

// Bits, since an option may belong to several commands. Where it means something else, it is declared once for each.
enum CommandBit : uint32_t { kRun = 1, kInfo = 2, kTokenize = 4, kEval = 8, kSynth = 16, kBench = 32 };

struct OptionSpec {
  const char* name;  // without dashes
  OptionType type;
  const char* value = "";      // what stands for it in help: "FILE", "N"; choices are listed instead
  const char* preset = "";     // the default, written as a user would
  const char* automatic = "";  // how the default comes about when it is not one value
  const char* unit = "";
  double min = 0, max = 0;   // of integer and number
  const char* choices = "";  // "on|off"
  const char* help;
  OptionGroup group = OptionGroup::behaviour;
  uint32_t commands;  // CommandBits
  bool repeatable = false;
  bool required = false;
};

struct CommandSpec {
  CommandBit bit;
  const char* name;
  const char* argument;  // "PROMPT"; "" takes none
  const char* argument_help;
  size_t max_arguments;
  const char* surplus_hint;  // what to do when there are more
  const char* summary;       // half a line
  const char* description;   // paragraphs, divided by "\n"
  const char* examples;      // lines
  bool needs_argument = false;
};

std::span<const OptionSpec> option_table();
std::span<const CommandSpec> command_table();

// The command line of one command. Looking up an option that the command does not have is a bug.
class Options {
 public:
  const CommandSpec& command() const { return *command_; }
  const std::vector<std::string>& arguments() const { return arguments_; }

  bool given(std::string_view name) const;  // by the user
  bool flag(std::string_view name) const { return given(name); }
  // The user's value, else the preset; calling one of these for an option with neither is a bug.
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  std::string text(std::string_view name) const;                       // choice, text, file; "" when there is neither
  const std::vector<std::string>& texts(std::string_view name) const;  // repeatable ones, in order
  std::optional<double> number_if_given(std::string_view name) const;

 private:
  friend Result<Options> parse_options(const CommandSpec&, const std::vector<std::string>&);
  const OptionSpec& spec(std::string_view name) const;

  const CommandSpec* command_ = nullptr;
  std::vector<std::string> arguments_;
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
};

// args: what follows the name of the command.
Result<Options> parse_options(const CommandSpec& command, const std::vector<std::string>& args);
// Null and the closest name, or a hint, when there is no such command.
Result<const CommandSpec*> find_command(const std::string& name);

// Numbers as options, requests and id lists write them; the error begins with `what`.
Result<int64_t> parse_integer(const std::string& text, int64_t min, int64_t max, const std::string& what);
Result<double> parse_number(const std::string& text, double min, double max, const std::string& what);

// Of `names`, the one that a person who typed `typed` probably meant; "" when none is near.
std::string nearest_name(std::string_view typed, std::span<const std::string> names);

std::string overview_text();                        // of `strata --help`
std::string help_text(const CommandSpec& command);  // of `strata COMMAND --help`
std::string options_markdown();                     // docs/options.md

// Value of STRATA_MODEL, the model to use when the command line names none; "" when unset.
std::string model_from_environment();

}  // namespace strata
