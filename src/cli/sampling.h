// How tokens are drawn: the user's options, else what the model file recommends, else this program's defaults.
#pragma once

#include "base/json.h"
#include "base/log.h"
#include "base/options.h"
#include "base/result.h"
#include "engine/sampler.h"
#include "tensor/gguf.h"

namespace strata {

// A recommendation of the file that is out of range is passed over with a warning.
Result<SampleParams> sample_params(const Options& options, const Gguf& file, int vocab, Log& log);

Json sampling_json(const SampleParams& params);

}  // namespace strata
