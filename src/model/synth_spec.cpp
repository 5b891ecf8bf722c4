// The names of what a spec holds, the presets, and what makes a spec one model.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/options.h"
#include "model/synth.h"
#include "model/synth_keys.h"
#include "ops/memory.h"

namespace strata {
namespace {

struct NumberKey {
  const char* name;
  int64_t SynthSpec::*member;
  int64_t min, max;
  const char* meaning;
};

// The bounds are those within which a file is read; what numbers must be to each other is in check_synth.
constexpr NumberKey kNumbers[] = {
    {"layers", &SynthSpec::layers, 1, 511, "blocks"},
    {"attention-interval", &SynthSpec::attention_interval, 1, 512, "every so many blocks one attends"},
    {"embedding", &SynthSpec::embedding, 1, 1 << 16, "width of a residual stream"},
    {"streams", &SynthSpec::streams, 2, 64, "residual streams"},
    {"hyper-rank", &SynthSpec::hyper_rank, 1, 1 << 16, "rank of the steps between streams and sub-layers"},
    {"vocab", &SynthSpec::vocab, kSynthVocabMin, 1 << 22, "tokens"},
    {"context", &SynthSpec::context, 1, 1 << 24, "longest context"},
    {"heads", &SynthSpec::heads, 1, 4096, "query heads"},
    {"kv-heads", &SynthSpec::kv_heads, 1, 4096, "key and value heads"},
    {"head-dim", &SynthSpec::head_dim, 2, 4096, "width of a head"},
    {"rope-dims", &SynthSpec::rope_dims, 2, 4096, "values of a head that turn with the position"},
    {"rope-base", &SynthSpec::rope_base, 1, 1'000'000'000'000, "base of the angles"},
    {"index-heads", &SynthSpec::index_heads, 1, 1024, "heads of the indexer"},
    {"index-dim", &SynthSpec::index_dim, 2, 4096, "width of an indexer key"},
    {"index-budget", &SynthSpec::index_budget, 1, 1 << 24, "tokens that the indexer selects"},
    {"index-block", &SynthSpec::index_block, 0, kPageTokens, "tokens of an indexer block; 0: no indexer"},
    {"gdn-key-heads", &SynthSpec::gdn_key_heads, 1, 4096, "key heads of a delta net"},
    {"gdn-value-heads", &SynthSpec::gdn_value_heads, 1, 4096, "value heads of a delta net"},
    {"gdn-dim", &SynthSpec::gdn_dim, 1, 1024, "width of a delta net's heads"},
    {"gdn-conv", &SynthSpec::gdn_conv, 2, 64, "taps of a delta net's convolution"},
    {"experts", &SynthSpec::experts, 1, 1 << 16, "routed experts of a block"},
    {"experts-used", &SynthSpec::experts_used, 1, 1 << 16, "of these, used for one token"},
    {"expert-width", &SynthSpec::expert_width, 1, 1 << 20, "width of a routed expert"},
    {"shared-width", &SynthSpec::shared_width, 1, 1 << 20, "width of the shared expert"},
    {"draft-experts", &SynthSpec::draft_experts, 1, 1 << 16, "routed experts of the draft head"},
    {"ngram-rows", &SynthSpec::ngram_rows, 0, int64_t{1} << 40, "rows of the n-gram table; 0: no n-grams"},
    {"ngram-size", &SynthSpec::ngram_size, 2, 16, "longest n-gram"},
    {"ngram-heads", &SynthSpec::ngram_heads, 1, 256, "table rows read for each length of n-gram"},
    {"ngram-width", &SynthSpec::ngram_width, 1, 1 << 16, "values of a table row"},
    {"ngram-conv", &SynthSpec::ngram_conv, 2, 64, "taps of the n-gram convolution"},
};

struct TypeKey {
  const char* name;
  TypeMap SynthSpec::*member;
  bool by_block;
  const char* meaning;
};

constexpr TypeKey kTypes[] = {
    {"type.experts-in", &SynthSpec::experts_in, true, "gate and up of the routed experts"},
    {"type.experts-out", &SynthSpec::experts_out, true, "down of the routed experts"},
    {"type.shared-in", &SynthSpec::shared_in, true, "gate and up of the shared expert"},
    {"type.shared-out", &SynthSpec::shared_out, true, "down of the shared expert"},
    {"type.mixer-in", &SynthSpec::mixer_in, true, "into attention and delta net"},
    {"type.mixer-out", &SynthSpec::mixer_out, true, "out of attention and delta net"},
    {"type.hyper", &SynthSpec::hyper, true, "steps between streams and sub-layers"},
    {"type.router", &SynthSpec::router, true, "routers and gates of the shared expert"},
    {"type.small", &SynthSpec::small, true, "indexer, and the small projections of a delta net"},
    {"type.ngram-key", &SynthSpec::ngram_key, false, "key of the n-grams"},
    {"type.ngram-value", &SynthSpec::ngram_value, false, "value of the n-grams"},
    {"type.ngram-table", &SynthSpec::table_type, false, "n-gram table"},
    {"type.embedding", &SynthSpec::embedding_type, false, "token table"},
    {"type.head", &SynthSpec::head_type, false, "output matrix"},
};

Status bad(const std::string& message, const std::string& hint) {
  return {Code::invalid_argument, message, hint};
}

// "4096", "4k", "1.5M": a whole number, perhaps in thousands, millions or billions.
Result<int64_t> parse_amount(const std::string& text, int64_t min, int64_t max, const std::string& what) {
  double factor = 1;
  std::string digits = text;
  constexpr std::string_view kSuffixes = "kMG";
  if (const size_t at = digits.empty() ? std::string::npos : kSuffixes.find(digits.back()); at != std::string::npos) {
    factor = std::pow(1000.0, static_cast<double>(at + 1));
    digits.pop_back();
  }
  double value = 0;
  const char* end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, value, std::chars_format::fixed);
  value *= factor;
  if (error != std::errc() || rest != end || value != std::floor(value)) {
    return bad(fmt::format("{} is '{}', expected a whole number", what, printable(text, 60)),
               "write it as 4096, 4k, 1.5M or 2G");
  }
  if (!(value >= static_cast<double>(min) && value <= static_cast<double>(max))) {
    return Status(Code::out_of_range, fmt::format("{} is {}, expected {} to {}", what, printable(text, 60), min, max),
                  "see the page on synthetic models");
  }
  return static_cast<int64_t>(value);
}

// "Q2_0" or "IQ3_S,IQ2_XXS*3".
Result<TypeMap> parse_types(const std::string& text, bool by_block, const std::string& what) {
  constexpr size_t kEntriesMax = 512;
  TypeMap out;
  for (size_t i = 0; i <= text.size();) {
    const size_t end = std::min(text.find(',', i), text.size());
    std::string name = text.substr(i, end - i);
    int64_t times = 1;
    if (const size_t star = name.find('*'); star != std::string::npos) {
      ASSIGN_OR_RETURN(times, parse_amount(name.substr(star + 1), 1, kEntriesMax, what + " (after *)"));
      name.resize(star);
    }
    const TypeTraits* type = find_type(name);
    if (type == nullptr) {
      std::vector<std::string> names;
      for (const TypeTraits& t : all_types()) names.emplace_back(t.name);
      return bad(fmt::format("{}: '{}' is no format", what, printable(name, 60)),
                 fmt::format("use {}", fmt::join(names, ", ")));
    }
    out.insert(out.end(), static_cast<size_t>(times), type->type);
    if (out.size() > kEntriesMax)
      return bad(fmt::format("{} has more than {} entries", what, kEntriesMax), "name less");
    i = end + 1;
  }
  if (!by_block && out.size() > 1) return bad(fmt::format("{} has {} formats", what, out.size()), "name one");
  return out;
}

std::string types_text(const TypeMap& types) {
  std::string out;
  for (size_t i = 0; i < types.size();) {
    size_t n = 1;
    while (i + n < types.size() && types[i + n] == types[i]) ++n;
    out += (out.empty() ? "" : ",") + std::string(type_name(types[i])) + (n > 1 ? fmt::format("*{}", n) : "");
    i += n;
  }
  return out;
}

SynthSpec nano() {
  SynthSpec s;
  s.layers = 12, s.embedding = 256, s.vocab = 8192, s.context = 8192, s.hyper_rank = 32;
  s.heads = 4, s.head_dim = 64, s.rope_dims = 32, s.rope_base = 100'000;
  s.index_dim = 32, s.index_budget = 512;
  s.gdn_key_heads = 2, s.gdn_value_heads = 4, s.gdn_dim = 64;
  s.experts = 128, s.experts_used = 8, s.expert_width = 64, s.shared_width = 64, s.draft_experts = 128;
  s.ngram_rows = 320'384, s.ngram_heads = 4, s.ngram_width = 32;
  s.embedding_type = s.head_type = s.mixer_in = s.mixer_out = {DType::Q6_K};
  s.small = s.shared_out = s.ngram_key = s.ngram_value = {DType::Q8_0};
  s.router = {DType::F32};
  return s;
}

// 13 x IQ3_S, 10 x IQ2_XS, 10 x IQ2_S, 9 x IQ2_XXS and 6 x IQ3_XXS; 18 x IQ4_NL and 30 x Q2_0: mixed so that any few
// blocks have small and large experts.
SynthSpec gsq_iq3_xxs() {
  using enum DType;
  SynthSpec s;
  s.experts_in = {IQ3_S,   IQ2_XXS, IQ2_XS,  IQ3_XXS, IQ3_S,   IQ2_S,   IQ2_XXS, IQ2_XS,  IQ3_S,   IQ2_S,
                  IQ2_XXS, IQ3_S,   IQ2_XS,  IQ2_S,   IQ3_S,   IQ3_XXS, IQ2_XS,  IQ2_XXS, IQ3_S,   IQ2_S,
                  IQ2_XS,  IQ3_S,   IQ2_XXS, IQ2_S,   IQ3_S,   IQ2_XS,  IQ3_XXS, IQ2_S,   IQ2_XXS, IQ3_S,
                  IQ2_XS,  IQ2_S,   IQ3_S,   IQ2_XXS, IQ2_XS,  IQ3_XXS, IQ3_S,   IQ2_S,   IQ2_XS,  IQ2_XXS,
                  IQ3_S,   IQ2_S,   IQ3_XXS, IQ2_XS,  IQ2_XXS, IQ2_S,   IQ3_S,   IQ3_XXS};
  s.experts_out.clear();
  for (int i = 0; i < 48; ++i) s.experts_out.push_back(i % 8 == 0 || i % 8 == 3 || i % 8 == 6 ? IQ4_NL : Q2_0);
  s.mixer_in = {Q5_K, Q6_K, Q4_K, Q5_K};
  s.shared_in = {Q5_K, IQ4_XS, Q6_K};
  s.shared_out = {IQ4_NL, Q5_0};
  return s;
}

Status check_together(bool holds, const std::string& message) {
  return holds ? Status() : bad(message, "change one of them");
}

Status check_attention(const SynthSpec& s) {
  RETURN_IF_ERROR(check_together(s.heads % s.kv_heads == 0,
                                 fmt::format("heads={} is no multiple of kv-heads={}", s.heads, s.kv_heads)));
  RETURN_IF_ERROR(check_together(s.rope_dims % 2 == 0 && s.rope_dims <= s.head_dim,
                                 fmt::format("rope-dims={} is odd or above head-dim={}", s.rope_dims, s.head_dim)));
  if (s.index_block == 0) return {};
  RETURN_IF_ERROR(check_together(kPageTokens % s.index_block == 0 && s.index_budget >= s.index_block,
                                 fmt::format("index-block={} is no divisor of {} or above index-budget={}",
                                             s.index_block, kPageTokens, s.index_budget)));
  return check_together(s.index_dim >= s.rope_dims,
                        fmt::format("index-dim={} is below rope-dims={}", s.index_dim, s.rope_dims));
}

}  // namespace

std::vector<std::string> synth_preset_names() {
  return {"real", "gsq-iq3_xxs", "nano"};
}

Result<SynthSpec> synth_preset(const std::string& name) {
  SynthSpec spec;
  if (name == "nano") {
    spec = nano();
  } else if (name == "gsq-iq3_xxs") {
    spec = gsq_iq3_xxs();
  } else if (name != "real") {
    return bad(fmt::format("there is no preset '{}'", printable(name, 60)),
               fmt::format("use {}", fmt::join(synth_preset_names(), ", ")));
  }
  spec.preset = name;
  return spec;
}

std::vector<SynthKey> synth_keys(const SynthSpec& spec) {
  std::vector<SynthKey> out;
  for (const NumberKey& k : kNumbers) out.push_back({k.name, k.meaning, fmt::format("{}", spec.*k.member)});
  for (const TypeKey& k : kTypes) out.push_back({k.name, k.meaning, types_text(spec.*k.member)});
  return out;
}

Status synth_set(SynthSpec& spec, const std::string& assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos) {
    return bad(fmt::format("'{}' is not KEY=VALUE", printable(assignment, 60)), "for example layers=4");
  }
  const std::string name = assignment.substr(0, equals), value = assignment.substr(equals + 1);
  for (const NumberKey& k : kNumbers) {
    if (name != k.name) continue;
    ASSIGN_OR_RETURN(spec.*k.member, parse_amount(value, k.min, k.max, name));
    return {};
  }
  for (const TypeKey& k : kTypes) {
    if (name != k.name) continue;
    ASSIGN_OR_RETURN(spec.*k.member, parse_types(value, k.by_block, name));
    return {};
  }
  std::vector<std::string> names;
  for (const SynthKey& k : synth_keys(spec)) names.push_back(k.name);
  const std::string near = nearest_name(name, names);
  return bad(fmt::format("there is no key '{}'", printable(name, 60)),
             near.empty() ? fmt::format("use {}", fmt::join(names, ", ")) : fmt::format("did you mean {}?", near));
}

Status check_synth(const SynthSpec& s) {
  RETURN_IF_ERROR(check_attention(s));
  RETURN_IF_ERROR(check_together(
      s.gdn_value_heads % s.gdn_key_heads == 0,
      fmt::format("gdn-value-heads={} is no multiple of gdn-key-heads={}", s.gdn_value_heads, s.gdn_key_heads)));
  const int64_t fewest = s.mtp ? std::min(s.experts, s.draft_experts) : s.experts;
  RETURN_IF_ERROR(check_together(s.experts_used <= fewest,
                                 fmt::format("experts-used={} is above the {} experts", s.experts_used, fewest)));
  if (!(s.router_skew >= 0 && s.router_skew <= 4))
    return {Code::out_of_range, fmt::format("the router skew is {}, expected 0 to 4", s.router_skew), "try 0.5"};
  if (!s.has_ngrams()) {
    return check_together(!s.split, "without n-grams (ngram-rows=0) there is no table to split off");
  }
  const auto heads = static_cast<size_t>(s.ngram_heads * (s.ngram_size - 1));
  return check_together(!ngram_head_rows(static_cast<uint64_t>(s.ngram_rows), heads).empty(),
                        fmt::format("ngram-rows={} is too few for {} heads of different sizes", s.ngram_rows, heads));
}

}  // namespace strata
