// Positional state: keys, values and finished indexer keys in pages of kPageTokens positions, shared by reference
// count. Rewinding is shortening; a page that two timelines share is copied before one of them writes into it.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "ops/memory.h"
#include "ops/state_views.h"

namespace strata {

// Where each attention layer lies inside a page. Pure; also what the memory plan counts with.
struct KvGeometry {
  KvFormat format = KvFormat::f32;
  std::vector<KvLayer> layers;  // raw_ring unset: rings belong to sequences
  size_t page_bytes = 0;
};
KvGeometry kv_geometry(const ModelConfig& config, KvFormat format);

using PageId = int32_t;
inline size_t pages_of(Pos length) {
  return static_cast<size_t>((length + kPageTokens - 1) / kPageTokens);
}

// A fixed number of pages, allocated once. Single-threaded.
class PagePool {
 public:
  static Result<std::unique_ptr<PagePool>> create(Memory& memory, KvGeometry geometry, size_t n_pages);

  const KvGeometry& geometry() const { return geometry_; }
  size_t pages_free() const { return free_.size(); }

  Result<PageId> allocate();  // fails with out_of_memory when every page is in use
  void retain(PageId id) { ++references_[static_cast<size_t>(id)]; }
  void release(PageId id);
  int32_t references(PageId id) const { return references_[static_cast<size_t>(id)]; }
  bool shared(PageId id) const { return references(id) > 1; }
  std::byte* data(PageId id) const { return buffer_.data() + static_cast<size_t>(id) * geometry_.page_bytes; }
  Memory& memory() const { return memory_; }

 private:
  PagePool(Memory& memory, KvGeometry geometry, Buffer buffer, size_t n_pages);

  Memory& memory_;
  KvGeometry geometry_;
  Buffer buffer_;
  std::vector<int32_t> references_;
  std::vector<PageId> free_;  // lowest id last, so that few pages are touched
};

// The pages of one timeline, in order of position. Copies share pages.
class PageTable {
 public:
  explicit PageTable(PagePool& pool) : pool_(&pool) {}
  PageTable(const PageTable& other);
  PageTable& operator=(const PageTable& other);
  PageTable(PageTable&&) = default;
  PageTable& operator=(PageTable&& other) noexcept;
  ~PageTable();

  // Makes positions [length, length + n) writable: new pages at the end, a private copy of a shared one. On failure the
  // table holds no new page.
  Status make_writable(Pos length, int n);
  void shorten(Pos length);  // drops pages wholly beyond length
  std::byte* const* data() const { return data_.data(); }
  size_t size() const { return ids_.size(); }
  const std::vector<PageId>& ids() const { return ids_; }

 private:
  void push(PageId id);
  void drop_from(size_t keep);

  PagePool* pool_;
  std::vector<PageId> ids_;
  std::vector<std::byte*> data_;
};

}  // namespace strata
