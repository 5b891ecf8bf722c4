#include "state/kv_cache.h"

#include <gtest/gtest.h>

#include <set>

#include "state/fake_step.h"

namespace strata {
namespace {

using testing::fake_config;

std::unique_ptr<PagePool> pool(size_t pages, HostMemory& memory) {
  return PagePool::create(memory, kv_geometry(fake_config(), KvFormat::f32), pages).value();
}

TEST(KvGeometry, LaysEveryLayerOutWithoutOverlap) {
  for (const KvFormat format : {KvFormat::f32, KvFormat::f16}) {
    ModelConfig c = fake_config();
    c.has_draft_head = true;
    const KvGeometry g = kv_geometry(c, format);
    ASSERT_EQ(g.layers.size(), 3u);
    const size_t values = kPageTokens * 4 * (format == KvFormat::f32 ? 4u : 2u), keys = kPageTokens / 4 * 2 * 4u;
    size_t at = 0;
    for (const KvLayer& l : g.layers) {
      EXPECT_EQ(l.k_offset, at);
      EXPECT_EQ(l.v_offset, at + values);
      at += 2 * values;
      if (&l == &g.layers.back()) break;
      EXPECT_EQ(l.block_key_offset, at);
      at += keys;
    }
    EXPECT_EQ(g.layers[2].block_tokens, 0) << "the draft head attends densely";
    EXPECT_EQ(g.layers[2].index_dim, 0);
    EXPECT_EQ(g.page_bytes, at);
  }
}

TEST(KvGeometry, OffsetsAreAlignedForAnyWidth) {
  ModelConfig c = fake_config(8);
  c.head_dim = 3, c.index_dim = 5;
  const KvGeometry g = kv_geometry(c, KvFormat::f16);
  for (const KvLayer& l : g.layers) {
    for (const size_t offset : {l.k_offset, l.v_offset, l.block_key_offset}) EXPECT_EQ(offset % Arena::kAlign, 0u);
  }
  EXPECT_EQ(g.page_bytes % Arena::kAlign, 0u);
}

TEST(KvGeometry, WithoutAnIndexerNoBlockKeysAreKept) {
  const KvGeometry g = kv_geometry(fake_config(0), KvFormat::f32);
  EXPECT_EQ(g.page_bytes, 2u * 2 * kPageTokens * 4 * 4);
}

// 2 heads of 256 in 12 layers, keys of 128 for every 4 tokens.
TEST(KvGeometry, OfThePublishedModelNeedsTheKnownBytesPerToken) {
  ModelConfig c;
  c.n_attention = 12, c.kv_heads = 2, c.head_dim = 256, c.index_dim = 128, c.block_tokens = 4;
  EXPECT_EQ(kv_geometry(c, KvFormat::f16).page_bytes / kPageTokens, 24576u + 1536u);
}

TEST(PagePool, HandsOutEveryPageOnceAndThenFails) {
  HostMemory memory;
  const auto p = pool(5, memory);
  std::set<PageId> ids;
  for (int i = 0; i < 5; ++i) ids.insert(p->allocate().value());
  EXPECT_EQ(ids, (std::set<PageId>{0, 1, 2, 3, 4}));
  EXPECT_EQ(p->pages_free(), 0u);
  const auto none = p->allocate();
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), Code::out_of_memory);
  EXPECT_NE(none.status().message().find("all 5 pages"), std::string::npos);
}

TEST(PagePool, UsesTheLowestPagesFirst) {
  HostMemory memory;
  const auto p = pool(5, memory);
  EXPECT_EQ(p->allocate().value(), 0);
  EXPECT_EQ(p->allocate().value(), 1);
  EXPECT_EQ(p->data(1) - p->data(0), static_cast<std::ptrdiff_t>(p->geometry().page_bytes));
}

TEST(PagePool, APageIsFreeWhenItsLastHolderLetsGo) {
  HostMemory memory;
  const auto p = pool(2, memory);
  const PageId id = p->allocate().value();
  p->retain(id);
  EXPECT_TRUE(p->shared(id));
  p->release(id);
  EXPECT_FALSE(p->shared(id));
  EXPECT_EQ(p->pages_free(), 1u);
  p->release(id);
  EXPECT_EQ(p->pages_free(), 2u);
}

TEST(PagePoolDeathTest, ReleasingAFreePageIsABug) {
  HostMemory memory;
  const auto p = pool(2, memory);
  const PageId id = p->allocate().value();
  p->release(id);
  EXPECT_DEATH(p->release(id), "released twice");
}

TEST(PageTable, GrowsByPagesAndShrinksToWhatIsNeeded) {
  HostMemory memory;
  const auto p = pool(8, memory);
  PageTable t(*p);
  ASSERT_TRUE(t.make_writable(0, 1).ok());
  EXPECT_EQ(t.size(), 1u);
  ASSERT_TRUE(t.make_writable(1, 63).ok());
  EXPECT_EQ(t.size(), 1u);
  ASSERT_TRUE(t.make_writable(63, 2).ok());
  EXPECT_EQ(t.size(), 2u);
  ASSERT_TRUE(t.make_writable(65, 200).ok());
  EXPECT_EQ(t.size(), 5u);
  t.shorten(129);
  EXPECT_EQ(t.size(), 3u);
  t.shorten(128);
  EXPECT_EQ(t.size(), 2u);
  t.shorten(0);
  EXPECT_EQ(p->pages_free(), 8u);
}

TEST(PageTable, ACopySharesPagesUntilOneOfThemIsWritten) {
  HostMemory memory;
  const auto p = pool(8, memory);
  PageTable a(*p);
  ASSERT_TRUE(a.make_writable(0, 128).ok());
  a.data()[0][5] = std::byte{7};
  a.data()[1][5] = std::byte{8};
  PageTable b = a;
  EXPECT_EQ(p->pages_free(), 6u);
  EXPECT_EQ(a.data()[1], b.data()[1]);
  ASSERT_TRUE(b.make_writable(100, 1).ok());
  EXPECT_EQ(p->pages_free(), 5u);
  EXPECT_EQ(a.data()[0], b.data()[0]) << "the page that is not written stays shared";
  EXPECT_NE(a.data()[1], b.data()[1]);
  EXPECT_EQ(b.data()[1][5], std::byte{8});
  b.data()[1][5] = std::byte{9};
  EXPECT_EQ(a.data()[1][5], std::byte{8});
}

TEST(PageTable, TheLastHolderWritesWithoutACopy) {
  HostMemory memory;
  const auto p = pool(8, memory);
  PageTable a(*p);
  ASSERT_TRUE(a.make_writable(0, 1).ok());
  const std::byte* page = a.data()[0];
  { const PageTable b = a; }
  ASSERT_TRUE(a.make_writable(1, 1).ok());
  EXPECT_EQ(a.data()[0], page);
  EXPECT_EQ(p->pages_free(), 7u);
}

TEST(PageTable, AFailureHoldsNoNewPageAndKeepsTheOldOnes) {
  HostMemory memory;
  const auto p = pool(4, memory);
  PageTable a(*p), b(*p);
  ASSERT_TRUE(a.make_writable(0, 70).ok());
  a.data()[1][0] = std::byte{5};
  const Status full = b.make_writable(0, 3 * kPageTokens);
  EXPECT_EQ(full.code(), Code::out_of_memory);
  EXPECT_EQ(b.size(), 0u);
  EXPECT_EQ(p->pages_free(), 2u);
  EXPECT_EQ(a.make_writable(70, 3 * kPageTokens).code(), Code::out_of_memory);
  EXPECT_EQ(a.size(), 2u);
  EXPECT_EQ(p->pages_free(), 2u);
  EXPECT_EQ(a.data()[1][0], std::byte{5});
  EXPECT_TRUE(b.make_writable(0, 2 * kPageTokens).ok());
}

TEST(PageTable, AssignmentAndMovesNeitherLeakNorFreeTwice) {
  HostMemory memory;
  const auto p = pool(8, memory);
  {
    PageTable a(*p), b(*p);
    ASSERT_TRUE(a.make_writable(0, 100).ok());
    ASSERT_TRUE(b.make_writable(0, 300).ok());
    EXPECT_EQ(p->pages_free(), 1u);
    b = a;
    EXPECT_EQ(p->pages_free(), 6u);
    const PageTable& itself = b;
    b = itself;
    EXPECT_EQ(b.size(), 2u);
    PageTable c = std::move(b);
    EXPECT_EQ(c.size(), 2u);
    a = std::move(c);
    EXPECT_EQ(a.size(), 2u);
  }
  EXPECT_EQ(p->pages_free(), 8u);
}

}  // namespace
}  // namespace strata
