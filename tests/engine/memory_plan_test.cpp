// The plan as a table of cases, and its numbers against what is really allocated.
#include "engine/memory_plan.h"

#include <gtest/gtest.h>

#include "engine/device_choice.h"
#include "engine/engine.h"
#include "layers/batch.h"
#include "model/tiny_model.h"
#include "state/sequence.h"

namespace strata {
namespace {

using testing::TinyGeometry;
using testing::TinyModel;

constexpr uint64_t kMiB = 1 << 20, kGiB = 1 << 30;
constexpr uint64_t kReserve = 512 * kMiB;

// The published model: 48 blocks, a file of 66 GB of which 29 are the n-gram table.
ModelFacts real_model() {
  ModelFacts f;
  ModelConfig& c = f.config;
  c.vocab = 248320, c.d_model = 2560, c.context_length = 262144;
  c.streams = 4, c.hyper_rank = 320;
  c.heads = 24, c.kv_heads = 2, c.head_dim = 256, c.rope_dims = 64;
  c.index_heads = 4, c.index_dim = 128, c.index_budget = 2048, c.block_tokens = 4;
  c.gdn_k_heads = 16, c.gdn_v_heads = 48, c.gdn_k_dim = c.gdn_v_dim = 128, c.gdn_conv_kernel = 4;
  c.has_ngrams = true;
  c.ngram.size = 3, c.ngram.heads_per_size = 8, c.ngram.conv_kernel = 4, c.ngram.row_width = 160;
  c.ngram.head_rows.resize(16);
  for (int i = 0; i < 48; ++i) {
    BlockConfig b;
    b.mixer = i % 4 == 3 ? Mixer::attention : Mixer::delta_net;
    b.n_experts = 512, b.n_experts_used = 10, b.expert_width = b.shared_width = 640;
    c.blocks.push_back(b);
  }
  c.n_delta_net = 36, c.n_attention = 12;
  f.file_bytes = 66'423'878'624, f.table_bytes = 28'800'138'240, f.float_bytes = 8 * kMiB;
  return f;
}

Machine machine_with(uint64_t ram, int cores = 8) {
  Machine m;
  m.ram_total = m.ram_available = ram;
  m.physical_cores = m.usable_cpus = cores;
  return m;
}

size_t no_scratch(const OpsShapes&) {
  return 0;
}

const PlanLine& line(const Plan& plan, const std::string& what) {
  for (const PlanLine& l : plan.lines) {
    if (l.what == what) return l;
  }
  ADD_FAILURE() << "no line " << what;
  return plan.lines.front();
}

struct Case {
  const char* name;
  uint64_t ram;
  int max_context;
  const char* kv;
  int context;  // 0: fails
  bool shortened = false, warns = false;
};

TEST(MemoryPlan, ChoosesTheContextThatFits) {
  // Keys and values: 26,112 bytes a token in f16, 50,688 in f32; beside them some 900 MiB.
  const Case cases[] = {
      {"plenty", 200 * kGiB, 0, "f16", 262144},
      {"enough for the context, not for the weights", 10 * kGiB, 0, "f16", 262144, false, true},
      {"explicit, fits", 10 * kGiB, 8192, "f16", 8192, false, true},
      {"explicit, not a multiple of a page", 200 * kGiB, 1000, "f16", 1000},
      {"too small for the whole context", 4 * kGiB, 0, "f16", -1, true, true},
      {"f32 is twice as large", 10 * kGiB, 0, "f32", -1, true, true},
      {"explicit, does not fit", 4 * kGiB, 262144, "f16", 0},
      {"nothing fits", kGiB, 0, "f16", 0},
      {"less than the reserve", 100 * kMiB, 0, "f16", 0},
      {"longer than the model was made for", 200 * kGiB, 262145, "f16", 0},
      {"no such format", 200 * kGiB, 0, "q8_0", 0},
      {"memory unknown", 0, 0, "f16", 262144},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    EngineOptions o;
    o.max_context = c.max_context, o.kv = c.kv;
    const auto plan = make_plan(machine_with(c.ram), real_model(), o, no_scratch);
    ASSERT_EQ(plan.ok(), c.context != 0) << plan.status().text();
    if (!plan.ok()) continue;
    EXPECT_TRUE(c.context < 0 || plan->max_context == c.context) << plan->max_context;
    EXPECT_TRUE(c.ram == 0 || plan->bytes_own + kReserve <= c.ram) << plan->bytes_own;
    EXPECT_EQ(plan->warnings.size(), c.warns ? 1u : 0u);
    bool shortened = false;
    for (const std::string& s : plan->choices)
      shortened = shortened || s.find("instead of 262144") != std::string::npos;
    EXPECT_EQ(shortened, c.shortened);
    if (!c.shortened) continue;
    EXPECT_EQ(plan->max_context % kPageTokens, 0);
    EXPECT_GE(plan->max_context, 16384);
  }
}

TEST(MemoryPlan, AShortenedContextIsTheLargestThatFits) {
  for (const uint64_t ram : {4 * kGiB, 5 * kGiB + 12345}) {
    EngineOptions o;
    const Plan plan = make_plan(machine_with(ram), real_model(), o, no_scratch).value();
    o.max_context = plan.max_context + kPageTokens;
    const auto longer = make_plan(machine_with(ram), real_model(), o, no_scratch);
    ASSERT_FALSE(longer.ok());
    EXPECT_EQ(longer.status().hint(), fmt::format("--max-context {} fits", plan.max_context));
    o.max_context = plan.max_context;
    EXPECT_TRUE(make_plan(machine_with(ram), real_model(), o, no_scratch).ok());
  }
}

TEST(MemoryPlan, ErrorsNameNeedHaveAndWhatWouldFit) {
  EngineOptions o;
  o.max_context = 262144, o.kv = "f16";
  const Status large = make_plan(machine_with(4 * kGiB), real_model(), o, no_scratch).status();
  EXPECT_EQ(large.code(), Code::out_of_memory);
  EXPECT_NE(large.message().find("a context of 262144 tokens needs 7"), std::string::npos) << large.text();
  EXPECT_NE(large.message().find("MiB, 3584 MiB can be used"), std::string::npos) << large.text();
  EXPECT_NE(large.hint().find("--max-context "), std::string::npos);
  o.max_context = 0;
  const Status none = make_plan(machine_with(600 * kMiB), real_model(), o, no_scratch).status();
  EXPECT_EQ(none.hint(), "close other programs");
  o.max_context = 300000;
  const Status longer = make_plan(machine_with(600 * kMiB), real_model(), o, no_scratch).status();
  EXPECT_EQ(longer.code(), Code::out_of_range);
  EXPECT_EQ(longer.text(), "--max-context 300000: the model was made for 262144 tokens; choose 262144 or less");
}

TEST(MemoryPlan, AWarningTellsThatTheWeightsDoNotStayInMemory) {
  EngineOptions o;
  o.max_context = 4096;
  const Plan tight = make_plan(machine_with(32 * kGiB), real_model(), o, no_scratch).value();
  ASSERT_EQ(tight.warnings.size(), 1u);
  EXPECT_NE(tight.warnings[0].find("the weights take 37.6 GB and 34.4 GB"), std::string::npos) << tight.warnings[0];
  EXPECT_TRUE(make_plan(machine_with(48 * kGiB), real_model(), o, no_scratch)->warnings.empty())
      << "the table need not stay";
}

// A control group's limit is what counts, not the machine around it.
TEST(MemoryPlan, FollowsTheLimitOfAControlGroup) {
  const TempDir dir;
  std::filesystem::create_directories(dir.path("proc/self"));
  std::filesystem::create_directories(dir.path("cgroup"));
  dir.put("proc/meminfo", "MemTotal:       67108864 kB\nMemFree:        60000000 kB\nMemAvailable:   60000000 kB\n");
  dir.put("proc/self/cgroup", "0::/\n");
  dir.put("cgroup/memory.max", "8589934592\n");
  dir.put("cgroup/memory.current", "0\n");
  const Machine limited = read_machine({dir.path("proc"), dir.path("sys"), dir.path("cgroup"), {0, 1}});
  ASSERT_EQ(limited.ram_total, 8 * kGiB);
  EngineOptions o;
  const Plan plan = make_plan(limited, real_model(), o, no_scratch).value();
  EXPECT_LE(plan.bytes_own, 8 * kGiB - kReserve);
  EXPECT_EQ(plan.warnings.size(), 1u);
}

TEST(MemoryPlan, FormatsOfKeysAndValues) {
  const auto plan = [](const char* device, const char* kv) {
    EngineOptions o;
    o.device = device, o.kv = kv, o.max_context = 4096;
    return make_plan(machine_with(200 * kGiB), real_model(), o, no_scratch).value();
  };
  EXPECT_EQ(plan("cpu", "auto").kv, KvFormat::f16);
  EXPECT_EQ(plan("plain", "auto").kv, KvFormat::f32);
  EXPECT_EQ(plan("cpu", "f32").kv, KvFormat::f32);
  EXPECT_EQ(plan("plain", "f16").kv, KvFormat::f16);
  const uint64_t f16 = line(plan("cpu", "f16"), "keys and values").bytes,
                 f32 = line(plan("cpu", "f32"), "keys and values").bytes;
  EXPECT_EQ(f16, (4096 / 64 + kMarks + 1) * 64 * 26112ull);
  EXPECT_EQ(f32, (4096 / 64 + kMarks + 1) * 64 * 50688ull);
}

TEST(MemoryPlan, LinesAddUpAndMappedOnesAreTheFiles) {
  EngineOptions o;
  o.max_context = 4096;
  const ModelFacts f = real_model();
  const Plan plan = make_plan(machine_with(200 * kGiB), f, o, [](const OpsShapes&) { return 12345; }).value();
  uint64_t own = 0, mapped = 0;
  for (const PlanLine& l : plan.lines) {
    (l.mapped ? mapped : own) += l.bytes;
    EXPECT_FALSE(l.why.empty()) << l.what;
  }
  EXPECT_EQ(plan.bytes_own, own);
  EXPECT_EQ(plan.bytes_mapped, mapped);
  EXPECT_EQ(mapped, f.file_bytes);
  EXPECT_EQ(line(plan, "n-gram table").bytes, f.table_bytes);
  EXPECT_EQ(line(plan, "scratch").bytes, 12345u);
  EXPECT_EQ(line(plan, "small tensors").bytes, f.float_bytes);
}

TEST(MemoryPlan, ThreadsFollowCoresLimitsAndTheUser) {
  struct Case {
    int cores, cpus;
    double quota;
    int wish;
    const char* device;
    int threads;
    std::string choice, warning;
  };
  const Case cases[] = {
      {2, 2, 0, 0, "cpu", 2, "2 threads: 2 cores, limit none", ""},
      {1, 1, 0, 0, "cpu", 1, "1 thread: 1 core, limit none", ""},
      {8, 16, 0, 0, "cpu", 8, "8 threads: 8 cores with 16 hardware threads, limit none", ""},
      {14, 20, 0, 0, "cpu", 14, "14 threads: 14 cores with 20 hardware threads, limit none", ""},
      {8, 16, 4, 0, "cpu", 4, "4 threads: 8 cores with 16 hardware threads, limit 4 of processor time", ""},
      {2, 2, 1.5, 0, "cpu", 1, "1 thread: 2 cores, limit 1.5 of processor time", ""},
      {4, 4, 3.99, 0, "cpu", 3, "3 threads: 4 cores, limit 3.99 of processor time", ""},
      {4, 4, 0.2, 0, "cpu", 1, "1 thread: 4 cores, limit 0.2 of processor time", ""},
      {2, 2, 64, 0, "cpu", 2, "2 threads: 2 cores, limit 64 of processor time", ""},
      {2, 2, 1e300, 0, "cpu", 2, "2 threads: 2 cores, limit 1e+300 of processor time", ""},
      {0, 0, 0, 0, "cpu", 1, "1 thread: 0 cores, limit none", ""},
      {8, 16, 0, 5, "cpu", 5, "", ""},
      {8, 16, 0, 16, "cpu", 16, "", ""},
      {8, 16, 0, 17, "cpu", 17, "", "--threads 17 on 8 cores with 16 hardware threads, limit none"},
      {2, 2, 1.5, 2, "cpu", 2, "", "--threads 2 on 2 cores, limit 1.5 of processor time"},
      {8, 16, 0, 5, "plain", 1, "", ""},
      {8, 16, 0, 0, "plain", 1, "", ""},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(fmt::format("{} cores, {} processors, quota {}, --threads {}", c.cores, c.cpus, c.quota, c.wish));
    Machine m = machine_with(200 * kGiB);
    m.physical_cores = c.cores, m.usable_cpus = c.cpus, m.cpu_quota = c.quota;
    EngineOptions o;
    o.device = c.device, o.threads = c.wish, o.max_context = 1024, o.kv = "f16";
    const Plan plan = make_plan(m, real_model(), o, no_scratch).value();
    EXPECT_EQ(plan.threads, c.threads);
    EXPECT_EQ(plan_threads(m, o), c.threads);
    EXPECT_EQ(plan.choices, c.choice.empty() ? std::vector<std::string>{} : std::vector{c.choice});
    ASSERT_EQ(plan.warnings.size(), c.warning.empty() ? 0u : 1u);
    if (!c.warning.empty()) {
      EXPECT_TRUE(plan.warnings[0].starts_with(c.warning)) << plan.warnings[0];
    }
  }
}

TEST(MemoryPlan, AChunkIsNeverLongerThanTheContextNorShorterThanAWindow) {
  const auto chunk = [](int context, int wish) {
    EngineOptions o;
    o.max_context = context, o.chunk_rows = wish;
    return make_plan(machine_with(200 * kGiB), real_model(), o, no_scratch)->chunk_rows;
  };
  EXPECT_EQ(chunk(4096, 0), 512);
  EXPECT_EQ(chunk(4096, 1000), 1000);
  EXPECT_EQ(chunk(300, 0), 300);
  EXPECT_EQ(chunk(300, 5000), 300);
  EXPECT_EQ(chunk(4096, 1), kMaxWindow);
  EXPECT_EQ(chunk(2, 0), kMaxWindow);
}

TEST(MemoryPlan, ShapesCoverTheWidestBlockAndTheDraftHead) {
  ModelConfig c = real_model().config;
  c.blocks[5].n_experts = 600, c.blocks[6].n_experts_used = 12, c.blocks[7].shared_width = 700;
  const OpsShapes trunk = ops_shapes(c, 512, 4096);
  EXPECT_EQ(trunk.max_experts, 600);
  EXPECT_EQ(trunk.max_experts_used, 12);
  EXPECT_EQ(trunk.max_expert_width, 700);
  EXPECT_EQ(trunk.max_linear_inputs, 10240);
  EXPECT_EQ(trunk.ngram_width, 2560);
  EXPECT_EQ(trunk.max_rows, 512);
  EXPECT_EQ(trunk.max_context, 4096);
  c.has_draft_head = true;
  c.draft.n_experts = 1024, c.draft.n_experts_used = 10, c.draft.expert_width = 800;
  EXPECT_EQ(ops_shapes(c, 512, 4096).max_experts, 1024);
  EXPECT_EQ(ops_shapes(c, 512, 4096).max_expert_width, 800);
  c.has_ngrams = false;
  EXPECT_EQ(ops_shapes(c, 512, 4096).ngram_width, 0);
}

// Remembers what was asked of it.
class CountingMemory final : public Memory {
 public:
  Result<Buffer> allocate(size_t bytes, const std::string& purpose) override {
    asked += bytes;
    return host_.allocate(bytes, purpose);
  }
  void copy(void* to, const void* from, size_t bytes) override { host_.copy(to, from, bytes); }
  void zero(void* at, size_t bytes) override { host_.zero(at, bytes); }
  uint64_t take() { return std::exchange(asked, 0); }
  uint64_t asked = 0;

 private:
  HostMemory host_;
};

TEST(MemoryPlan, CountsWhatTheStateReallyAllocates) {
  TinyGeometry g;
  g.draft_experts = 8;
  for (const char* kv : {"f32", "f16"}) {
    TinyModel m(g);
    const TempDir dir;
    m.write(dir.path("m.gguf"));
    EngineOptions o;
    o.model_path = dir.path("m.gguf"), o.kv = kv, o.max_context = 300;
    const auto inspected = inspect_model(o, machine_with(16 * kGiB, 2));
    ASSERT_TRUE(inspected.ok() && inspected->plan.ok());
    const Plan& plan = *inspected->plan;
    const ModelConfig& c = inspected->facts.config;
    CountingMemory memory;
    const auto pages = PagePool::create(memory, kv_geometry(c, plan.kv), plan.n_pages).value();
    EXPECT_EQ(memory.take(), line(plan, "keys and values").bytes);
    const SequenceLimits limits{plan.max_context, plan.chunk_rows};
    const auto s = Sequence::create(*pages, running_geometry(c), limits, [](SequenceView&) {}).value();
    const uint64_t rings = uint64_t{4} * static_cast<uint64_t>(ring_rows(limits)) * 16;
    EXPECT_EQ(memory.take() + rings, line(plan, "recurrent state").bytes);
    const auto kept = s->snapshot().value();
    EXPECT_EQ(memory.take() * kMarks, line(plan, "checkpoints").bytes);
    EXPECT_TRUE(Activations::create(memory, c, plan.chunk_rows, plan.max_context).ok());
    EXPECT_EQ(memory.take(), line(plan, "activations").bytes);
    const Device device = make_device("cpu", plan.threads);
    EXPECT_EQ(device.ops->scratch_bytes(ops_shapes(c, plan.chunk_rows, plan.max_context)), line(plan, "scratch").bytes);
    EXPECT_EQ(line(plan, "tokens").bytes, sizeof(TokenRecord) * 300u);
    EXPECT_EQ(line(plan, "small tensors").bytes, inspected->facts.float_bytes);
    EXPECT_EQ(line(plan, "model file").bytes + line(plan, "n-gram table").bytes,
              std::filesystem::file_size(dir.path("m.gguf")));
  }
}

// Marks at every cut of a full context, each rewritten after it was made: the most that a sequence holds.
TEST(MemoryPlan, HasPagesForAFullContextWithEveryMark) {
  ModelConfig c;
  c.n_attention = 1, c.kv_heads = 1, c.head_dim = 8;
  ModelFacts f;
  f.config = c;
  f.config.context_length = 300, f.config.vocab = 4, f.config.d_model = 4, f.config.streams = 2;
  EngineOptions o;
  const Plan plan = make_plan(Machine{}, f, o, no_scratch).value();
  HostMemory memory;
  const auto pages = PagePool::create(memory, kv_geometry(c, plan.kv), plan.n_pages).value();
  const auto s =
      Sequence::create(*pages, running_geometry(c), {plan.max_context, plan.chunk_rows}, [](SequenceView&) {}).value();
  while (s->room() > 0) {
    const TokenRecord row = TokenRecord::text(TokenId(1), s->next_position(), RowRole::generated);
    ASSERT_TRUE(s->begin(std::span(&row, 1)).ok()) << "at " << s->length() << " of 300 tokens";
    s->commit(1);
    ASSERT_TRUE(s->mark(kMarks).ok());
    EXPECT_LE(s->marks(), static_cast<size_t>(kMarks));
  }
}

}  // namespace
}  // namespace strata
