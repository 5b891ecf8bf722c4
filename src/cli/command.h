// What a command gets and what it gives back. Commands own nothing: they read options, ask the rooms below, and print.
// The answer goes to standard output, everything else through the log to standard error.
#pragma once

#include "base/log.h"
#include "base/options.h"
#include "base/result.h"

namespace strata {

struct CommandContext {
  const Options& options;
  Log& log;
};

Status run_command(CommandContext& context);
Status info_command(CommandContext& context);
Status tokenize_command(CommandContext& context);
Status eval_command(CommandContext& context);
Status synth_command(CommandContext& context);
Status bench_command(CommandContext& context);

}  // namespace strata
