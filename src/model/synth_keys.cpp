#include "model/synth_keys.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <string_view>

namespace strata {
namespace {

// In the order of the real vocabulary, whose ids they have in a vocabulary of its size.
constexpr std::array<std::string_view, 33> kControls = {
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
    "<|audio_start|>",
    "<|audio_end|>",
    "<tts_pad>",
    "<tts_text_bos>",
    "<tts_text_eod>",
    "<tts_text_bos_single>",
    "<|audio_pad|>",
};
constexpr int64_t kTurnEnd = 2, kImagePad = 12;  // places in kControls

constexpr std::string_view kTemplate =
    "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}"
    "{%- else %}{{- '<think>\\n' }}{%- endif %}{%- endif %}";

// The character that stands for a byte in a byte-level vocabulary: itself where it is printable Latin-1, else the next
// one from U+0100 on.
std::array<std::string, 256> byte_alphabet() {
  std::array<std::string, 256> out;
  unsigned next = 256;
  for (unsigned b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b != 0xad);
    const unsigned c = printable ? b : next++;
    if (c < 0x80) {
      out[b] = std::string(1, static_cast<char>(c));
    } else {
      out[b] = {static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 0x3f))};
    }
  }
  return out;
}

struct Words {
  std::vector<std::string> tokens, merges;
};

// Bytes, then ever longer strings of letters, with and without a space before them, each of them its predecessor and a
// letter. Common letters come first, so that ordinary text merges.
Words make_words(size_t n) {
  constexpr std::string_view kLetters = "etaoinshrdlcumwfgypbvkjxqz";
  const std::array<std::string, 256> alphabet = byte_alphabet();
  Words words;
  words.tokens.assign(alphabet.begin(), alphabet.end());
  std::vector<std::string> last;  // all strings of one length
  last.push_back(alphabet[' ']);
  for (const char letter : kLetters) last.emplace_back(1, letter);
  while (words.tokens.size() < n) {
    std::vector<std::string> longer;
    for (const std::string& start : last) {
      for (const char letter : kLetters) {
        if (words.tokens.size() == n) return words;
        longer.push_back(start + letter);
        words.tokens.push_back(longer.back());
        words.merges.push_back(start + ' ' + letter);
      }
    }
    last = std::move(longer);
  }
  return words;
}

void set_tokenizer(const SynthSpec& spec, GgufWriter& out) {
  const int64_t first = first_control_id(spec.vocab);
  Words words = make_words(static_cast<size_t>(first));
  std::vector<int32_t> types(words.tokens.size(), 1);
  for (const std::string_view name : kControls) {
    words.tokens.emplace_back(name);
    types.push_back(name.starts_with("<|") ? 3 : 4);  // control, or shown as text
  }
  while (static_cast<int64_t>(words.tokens.size()) < spec.vocab) {
    words.tokens.push_back(fmt::format("[PAD{}]", words.tokens.size()));
    types.push_back(5);  // unused
  }
  out.set_string("tokenizer.ggml.model", "gpt2");
  out.set_string("tokenizer.ggml.pre", "qwen35");
  out.set_strings("tokenizer.ggml.tokens", words.tokens);
  out.set_array<int32_t>("tokenizer.ggml.token_type", types);
  out.set_strings("tokenizer.ggml.merges", words.merges);
  out.set<uint32_t>("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(first));
  out.set<uint32_t>("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(first + kTurnEnd));
  out.set<uint32_t>("tokenizer.ggml.padding_token_id", static_cast<uint32_t>(first));
  out.set<bool>("tokenizer.ggml.add_bos_token", false);
  out.set_string("tokenizer.chat_template", kTemplate);
}

void set_ngrams(const SynthSpec& spec, GgufWriter& out) {
  const auto n = [&](const char* key, int64_t value) {
    out.set<uint32_t>(std::string("qwen4exp.") + key, static_cast<uint32_t>(value));
  };
  out.set_array<int32_t>("qwen4exp.ple.layers", {spec.layers > 1 ? 1 : 0});
  n("ple.ngram_size", spec.ngram_size);
  n("ple.heads_per_ngram", spec.ngram_heads);
  n("ple.conv_kernel", spec.ngram_conv);
  n("embedding_length_per_layer_input", spec.ngram_width);
  n("ple.eos_token_id", first_control_id(spec.vocab));
  n("ple.image_token_id", first_control_id(spec.vocab) + kImagePad);
  const auto size = static_cast<size_t>(spec.ngram_size);
  const std::vector<uint64_t> rows =
      ngram_head_rows(static_cast<uint64_t>(spec.ngram_rows), (size - 1) * static_cast<size_t>(spec.ngram_heads));
  std::vector<uint64_t> offsets(rows.size());
  std::exclusive_scan(rows.begin(), rows.end(), offsets.begin(), uint64_t{0});
  out.set_array<uint64_t>("qwen4exp.ple.layer_multipliers", ngram_multipliers(size, static_cast<uint64_t>(spec.vocab)));
  out.set_array<uint64_t>("qwen4exp.ple.head_vocab_sizes", rows);
  out.set_array<uint64_t>("qwen4exp.ple.head_offsets", offsets);
}

void set_geometry(const SynthSpec& s, GgufWriter& out) {
  const std::pair<const char*, int64_t> numbers[] = {
      {"block_count", s.layers + (s.mtp ? 1 : 0)},
      {"context_length", s.context},
      {"embedding_length", s.embedding},
      {"vocab_size", s.vocab},
      {"attention.head_count", s.heads},
      {"attention.head_count_kv", s.kv_heads},
      {"attention.key_length", s.head_dim},
      {"attention.value_length", s.head_dim},
      {"rope.dimension_count", s.rope_dims},
      {"expert_count", s.experts},
      {"expert_used_count", s.experts_used},
      {"expert_feed_forward_length", s.expert_width},
      {"expert_shared_feed_forward_length", s.shared_width},
      {"ssm.conv_kernel", s.gdn_conv},
      {"ssm.state_size", s.gdn_dim},
      {"ssm.group_count", s.gdn_key_heads},
      {"ssm.time_step_rank", s.gdn_value_heads},
      {"ssm.inner_size", s.gdn_value_heads * s.gdn_dim},
      {"full_attention_interval", s.attention_interval},
      {"hyper_connection.count", s.streams},
      {"hyper_connection.low_rank", s.hyper_rank},
      {"attention.indexer.head_count", s.index_heads},
      {"attention.indexer.key_length", s.index_dim},
      {"attention.indexer.top_k", s.index_budget},
  };
  const std::string prefix = "qwen4exp.";
  for (const auto& [key, value] : numbers) out.set<uint32_t>(prefix + key, static_cast<uint32_t>(value));
  if (s.mtp) out.set<uint32_t>(prefix + "nextn_predict_layers", 1);
  out.set<float>(prefix + "attention.layer_norm_rms_epsilon", 1e-6f);
  out.set<float>(prefix + "rope.freq_base", static_cast<float>(s.rope_base));
  const auto pairs = static_cast<int32_t>(s.rope_dims / 2);
  out.set_array<int32_t>(prefix + "rope.dimension_sections", {(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0});
  std::vector<int32_t> ratios;
  for (int64_t i = 0; i < s.layers; ++i) ratios.push_back(s.attends(i) ? static_cast<int32_t>(s.index_block) : 0);
  if (s.mtp) ratios.push_back(0);
  out.set_array<int32_t>(prefix + "attention.compress_ratios", ratios);
}

bool is_prime(uint64_t n) {
  for (uint64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) return false;
  }
  return n >= 2;
}

}  // namespace

int64_t first_control_id(int64_t vocab) {
  return vocab - static_cast<int64_t>(kControls.size()) - (vocab + 1023) / 1024;
}

std::vector<uint64_t> ngram_head_rows(uint64_t rows, size_t heads) {
  // The run lies around the mean: at most `heads` primes below it and as many above.
  const uint64_t mean = rows / heads;
  std::vector<uint64_t> primes;
  for (uint64_t n = mean; n >= 2 && primes.size() < heads; --n) {
    if (is_prime(n)) primes.push_back(n);
  }
  std::reverse(primes.begin(), primes.end());
  const size_t below = primes.size();
  for (uint64_t n = std::max<uint64_t>(mean + 1, 2); primes.size() < below + heads; ++n) {
    if (is_prime(n)) primes.push_back(n);
  }
  std::vector<uint64_t> best;
  for (auto first = primes.begin(); primes.end() - first >= static_cast<std::ptrdiff_t>(heads); ++first) {
    const auto last = first + static_cast<std::ptrdiff_t>(heads);
    if (std::accumulate(first, last, uint64_t{0}) > rows) break;
    best.assign(first, last);
  }
  return best;
}

std::vector<uint64_t> ngram_multipliers(size_t size, uint64_t vocab) {
  constexpr uint64_t kHashSeed = 1234, kStep = 0x9e3779b97f4a7c15u;
  const uint64_t half = static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / vocab / 2;
  std::vector<uint64_t> out;
  for (size_t k = 0; k < size; ++k) {
    uint64_t z = kHashSeed + kStep * (k + 1) + kStep;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    out.push_back(2 * ((z ^ z >> 31) % half) + 1);
  }
  return out;
}

void set_synth_keys(const SynthSpec& spec, GgufWriter& out) {
  out.set_string("general.architecture", "qwen4exp");
  out.set_string("general.type", "model");
  out.set_string("general.name", fmt::format("random weights, {}", spec.preset));
  out.set<uint32_t>("general.quantization_version", 2);
  set_geometry(spec, out);
  if (spec.has_ngrams()) set_ngrams(spec, out);
  set_tokenizer(spec, out);
}

}  // namespace strata
