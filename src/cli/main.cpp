// The strata program: finds the command, parses its options, runs it, and turns its Status into one line and an exit
// code.
#include <fmt/format.h>

#include <new>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/options.h"
#include "cli/command.h"
#include "os/console.h"

namespace strata {
namespace {

Status dispatch(CommandContext& context) {
  switch (context.options.command().bit) {
    case kRun:
      return run_command(context);
    case kInfo:
      return info_command(context);
    case kTokenize:
      return tokenize_command(context);
    case kEval:
      return eval_command(context);
    case kSynth:
      return synth_command(context);
    case kBench:
      return bench_command(context);
  }
  CHECK(false, "the command {} is in the table and nowhere else", context.options.command().name);
}

bool asks_for_help(const std::vector<std::string>& args) {
  for (const std::string& arg : args) {
    if (arg == "--") return false;
    if (arg == "--help" || arg == "-h") return true;
  }
  return false;
}

Status start(const std::vector<std::string>& args, Log& log) {
  const std::string first = args.empty() ? "--help" : args.front();
  if (first == "--help" || first == "-h" || (first == "help" && args.size() == 1))
    return write_stream(Stream::out, overview_text());
  if (first == "--version") return write_stream(Stream::out, "strata " STRATA_VERSION "\n");
  if (first == "options-md")
    return write_stream(Stream::out, options_markdown());  // writes docs/options.md; not for users
  ASSIGN_OR_RETURN(const CommandSpec* command, find_command(first == "help" ? args[1] : first));
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  if (first == "help" || asks_for_help(rest)) return write_stream(Stream::out, help_text(*command));
  ASSIGN_OR_RETURN(const Options options, parse_options(*command, rest));
  CommandContext context{options, log};
  return dispatch(context);
}

int main_with(const std::vector<std::string>& args) {
  prepare_streams();
  // Nothing is left to say when standard error itself fails.
  const auto to_stderr = [](std::string_view text) {
    [[maybe_unused]] const Status s = write_stream(Stream::err, text);
  };
  Log log(to_stderr, steady_seconds, is_terminal(Stream::err), terminal_columns(Stream::err));
  Status status;
  try {
    status = start(args, log);
  } catch (const std::bad_alloc&) {
    status = Status(Code::out_of_memory, "the system gave no more memory",
                    "close other programs, or use a smaller --max-context");
  }
  if (!status.ok()) log.error(status);
  return static_cast<int>(exit_code_of(status.code()));
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  return strata::main_with(std::vector<std::string>(argv + 1, argv + argc));
}
