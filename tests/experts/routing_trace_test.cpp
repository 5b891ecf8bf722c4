#include "experts/routing_trace.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

const RoutingGeometry kShape{{{4, 2}, {8, 3}, {65536, 1}}};
const std::vector<uint16_t> kIds = {0, 3, 7, 1, 2, 65535, 3, 2, 5, 0, 6, 256};  // of two tokens

std::string file_of(const RoutingGeometry& shape, uint64_t positions, const std::vector<uint16_t>& ids) {
  std::string out = shape.header(positions);
  for (const uint16_t id : ids) {
    out += static_cast<char>(id & 0xff);
    out += static_cast<char>(id >> 8);
  }
  return out;
}

Result<RoutingTrace> parse(const std::string& file) {
  return RoutingTrace::parse(std::as_bytes(std::span(file)), "t.trace");
}

TEST(RoutingTrace, HoldsTheIdsOfEveryTokenAndLayer) {
  for (const size_t shift : {0, 1}) {  // any alignment
    const std::string padded = std::string(shift, 'x') + file_of(kShape, 2, kIds);
    const auto trace = RoutingTrace::parse(std::as_bytes(std::span(padded)).subspan(shift), "t.trace");
    ASSERT_TRUE(trace.ok()) << trace.status().text();
    EXPECT_EQ(trace->positions(), 2u);
    EXPECT_EQ(trace->geometry(), kShape);
    size_t at = 0;
    for (uint64_t p = 0; p < 2; ++p) {
      for (size_t layer = 0; layer < 3; ++layer) {
        std::vector<int32_t> ids(kShape.layers[layer].n_used);
        trace->ids(p, layer, ids.data());
        for (const int32_t id : ids) EXPECT_EQ(id, kIds[at++]) << "token " << p << " layer " << layer;
      }
    }
  }
}

// The page that describes the format gives this example.
TEST(RoutingTrace, IsLaidOutAsDocumented) {
  const std::string file = file_of({{{8, 2}}}, 1, {5, 258 % 8});
  EXPECT_EQ(file, std::string("STRRTR01"
                              "\1\0\0\0\0\0\0\0"
                              "\1\0\0\0"
                              "\0\0\0\0"
                              "\10\0\0\0"
                              "\2\0\0\0"
                              "\5\0\2\0",
                              36));
}

TEST(RoutingTrace, MayBeEmpty) {
  const std::string file = file_of(kShape, 0, {});
  EXPECT_EQ(parse(file)->positions(), 0u);
}

TEST(RoutingTrace, EveryWrongFileIsOneClearLine) {
  const auto header = [](std::string file, size_t at, std::initializer_list<int> bytes) {
    for (const int b : bytes) file[at++] = static_cast<char>(b);
    return file;
  };
  const std::string good = file_of(kShape, 2, kIds);
  struct Case {
    std::string file;
    Code code;
    const char* message;
  };
  const Case cases[] = {
      {"", Code::unsupported, "t.trace: not a routing trace"},
      {"GGUF", Code::unsupported, "t.trace: not a routing trace"},
      {header(good, 7, {'2'}), Code::unsupported, "t.trace: not a routing trace"},
      {"STRR", Code::corrupt, "t.trace: 4 bytes, the header of a routing trace has at least 24"},
      {good.substr(0, 23), Code::corrupt, "t.trace: 23 bytes, the header"},
      {good.substr(0, 24), Code::corrupt, "t.trace: 24 bytes cannot list the 3 layers of its header"},
      {good.substr(0, 47), Code::corrupt, "t.trace: 47 bytes cannot list the 3 layers"},
      {header(good, 16, {0, 0, 0, 0}), Code::corrupt, "a routing trace of 0 layers with the reserved value 0"},
      {header(good, 20, {7}), Code::corrupt, "a routing trace of 3 layers with the reserved value 7"},
      {header(good, 16, {255, 255, 255, 255}), Code::corrupt, "cannot list the 4294967295 layers"},
      {good.substr(0, good.size() - 1), Code::corrupt,
       "the ids of 2 tokens take 12 bytes each, and 23 bytes of ids are there"},
      {good + "x", Code::corrupt, "and 25 bytes of ids are there"},
      {good.substr(0, 48), Code::corrupt, "and 0 bytes of ids are there"},
      {header(good, 8, {3}), Code::corrupt, "the ids of 3 tokens take 12 bytes each, and 24"},
      {header(good, 8, {0, 0, 0, 0, 0, 0, 0, 128}), Code::corrupt, "the ids of 9223372036854775808 tokens"},
      {file_of({{{4, 2}}}, 1, {0, 4}), Code::corrupt, "t.trace: expert 4 of token 0 in layer 0 of 4"},
      {file_of({{{4, 2}}}, 2, {0, 1, 2, 2}), Code::corrupt, "t.trace: expert 2 of token 1 in layer 0 is there twice"},
      {file_of({{{4, 0}}}, 0, {}), Code::corrupt, "layer 0 of the routing trace uses 0 of 4 experts"},
      {file_of({{{4, 2}, {4, 5}}}, 0, {}), Code::corrupt, "layer 1 of the routing trace uses 5 of 4 experts"},
      {file_of({{{65537, 2}}}, 0, {}), Code::corrupt, "layer 0 of the routing trace uses 2 of 65537 experts"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.message);
    const auto trace = parse(c.file);
    ASSERT_FALSE(trace.ok());
    EXPECT_EQ(trace.status().code(), c.code);
    EXPECT_NE(trace.status().message().find(c.message), std::string::npos) << trace.status().text();
    EXPECT_EQ(trace.status().hint(), "record one with strata run --trace-routing FILE");
  }
}

TEST(RoutingTrace, FitsOnlyAModelWithTheSameLayers) {
  const std::string file = file_of(kShape, 2, kIds);
  const auto trace = parse(file);
  EXPECT_TRUE(trace->fits(kShape, "t.trace").ok());
  RoutingGeometry other = kShape;
  other.layers.pop_back();
  EXPECT_EQ(trace->fits(other, "t.trace").text(),
            "t.trace: the routing trace has 3 layers, the model 2; record a trace with a model of this shape");
  other = kShape;
  other.layers[1].n_experts = 16;
  EXPECT_EQ(trace->fits(other, "t.trace").message(),
            "t.trace: layer 1 of the routing trace uses 3 of 8 experts, the model's 3 of 16");
  other = kShape;
  other.layers[1].n_used = 2;
  EXPECT_FALSE(trace->fits(other, "t.trace").ok());
}

TEST(RoutingTrace, TakesItsShapeFromTheTrunk) {
  ModelConfig c;
  BlockConfig b;
  b.n_experts = 16, b.n_experts_used = 4;
  c.blocks.assign(3, b);
  c.has_draft_head = true, c.draft = b;
  EXPECT_EQ(RoutingGeometry::of(c).value(), (RoutingGeometry{{{16, 4}, {16, 4}, {16, 4}}}));
  c.blocks[2].n_experts = 65537;
  EXPECT_EQ(RoutingGeometry::of(c).status().message(), "layer 2 has 65537 experts, a routing trace can number 65536");
}

}  // namespace
}  // namespace strata
