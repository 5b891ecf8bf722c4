// From logits to one token. Pure: the draw depends on the logits, the parameters, the tokens so far, the seed and the
// position, and on nothing else; so a cached prefix, a draft or a neighbour never changes it.
// Order: penalties see the model's own logits (their rule depends on the sign), then bias, the user's last word; top_k
// on logits, since temperature keeps their order; softmax at the temperature; top_p on what top_k left; min_p last,
// which is relative to the best token and so the same wherever it stands. Ties go to the lower id. The draw walks what
// is left in the order of ids.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace strata {

struct SampleParams {
  float temperature = 1.0f;     // 0: argmax (ties: lowest id), everything below except penalties and bias is ignored
  int top_k = 0;                // 0: off
  float top_p = 1.0f;           // 1: off
  float min_p = 0.0f;           // 0: off; relative to the best probability
  float repeat_penalty = 1.0f;  // 1: off; divides positive and multiplies negative logits of tokens seen in the window
  float presence_penalty = 0.0f;   // subtracted once from tokens seen in the window
  float frequency_penalty = 0.0f;  // subtracted per occurrence in the window
  int penalty_window = 64;         // last tokens (prompt and answer) that penalties look at; -1: all, 0: none
  std::vector<std::pair<TokenId, float>> logit_bias{};  // added; several for one token add up
  uint64_t seed = 0;
};

// Every parameter in its range and every biased token inside the vocabulary; the error names the parameter.
Status check_params(const SampleParams& params, int vocab);

struct Drawn {
  TokenId token;
  float logprob = 0;  // natural log of the unmodified softmax at the drawn token
};

// Fails (Code::failed) when a logit is NaN or +Inf or when all are -Inf: such a request must stop, others go on.
// history: tokens before the drawn one (prompt and answer). position: index the drawn token will have.
Result<Drawn> draw(std::span<const float> logits, const SampleParams& params, std::span<const TokenId> history,
                   Pos position);

// Natural log of the softmax at `token`, summed in double precision; fails like draw on a row that is not finite.
Result<float> logprob_of(std::span<const float> logits, TokenId token);

// In [0, 1): the draw that belongs to a position. Any two positions or seeds are unrelated.
double uniform_at(uint64_t seed, Pos position);

}  // namespace strata
