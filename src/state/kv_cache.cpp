#include "state/kv_cache.h"

#include <utility>

namespace strata {

KvGeometry kv_geometry(const ModelConfig& config, KvFormat format) {
  KvGeometry g;
  g.format = format;
  const int layers = config.n_attention + (config.has_draft_head ? 1 : 0);
  const size_t value_bytes = format == KvFormat::f32 ? 4 : 2;
  size_t at = 0;
  const auto place = [&](size_t bytes) {
    const size_t offset = at;
    at += Arena::padded(bytes);
    return offset;
  };
  for (int i = 0; i < layers; ++i) {
    KvLayer l;
    l.k_width = l.v_width = config.kv_heads * config.head_dim;
    l.k_offset = place(kPageTokens * static_cast<size_t>(l.k_width) * value_bytes);
    l.v_offset = place(kPageTokens * static_cast<size_t>(l.v_width) * value_bytes);
    if (i < config.n_attention && config.block_tokens > 0) {
      l.index_dim = config.index_dim;
      l.block_tokens = config.block_tokens;
      l.block_key_offset =
          place(static_cast<size_t>(kPageTokens / l.block_tokens) * static_cast<size_t>(l.index_dim) * 4);
    }
    g.layers.push_back(l);
  }
  g.page_bytes = at;
  return g;
}

PagePool::PagePool(Memory& memory, KvGeometry geometry, Buffer buffer, size_t n_pages)
    : memory_(memory), geometry_(std::move(geometry)), buffer_(std::move(buffer)), references_(n_pages, 0) {
  for (size_t i = n_pages; i-- > 0;) free_.push_back(static_cast<PageId>(i));
}

Result<std::unique_ptr<PagePool>> PagePool::create(Memory& memory, KvGeometry geometry, size_t n_pages) {
  ASSIGN_OR_RETURN(Buffer buffer, memory.allocate(geometry.page_bytes * n_pages, "keys and values"));
  return std::unique_ptr<PagePool>(new PagePool(memory, std::move(geometry), std::move(buffer), n_pages));
}

Result<PageId> PagePool::allocate() {
  if (free_.empty()) {
    return Status(Code::out_of_memory, fmt::format("all {} pages of keys and values are in use", references_.size()),
                  "end another conversation or raise --max-context");
  }
  const PageId id = free_.back();
  free_.pop_back();
  references_[static_cast<size_t>(id)] = 1;
  return id;
}

void PagePool::release(PageId id) {
  int32_t& count = references_[static_cast<size_t>(id)];
  CHECK(count > 0, "page {} released twice", id);
  if (--count == 0) free_.push_back(id);
}

PageTable::PageTable(const PageTable& other) : pool_(other.pool_), ids_(other.ids_), data_(other.data_) {
  for (PageId id : ids_) pool_->retain(id);
}

PageTable& PageTable::operator=(const PageTable& other) {
  if (this != &other) *this = PageTable(other);
  return *this;
}

PageTable& PageTable::operator=(PageTable&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(ids_, other.ids_);
  std::swap(data_, other.data_);
  return *this;
}

PageTable::~PageTable() {
  for (PageId id : ids_) pool_->release(id);
}

void PageTable::push(PageId id) {
  ids_.push_back(id);
  data_.push_back(pool_->data(id));
}

Status PageTable::make_writable(Pos length, int n) {
  const size_t before = ids_.size();
  const auto first = static_cast<size_t>(length / kPageTokens);
  const auto last = static_cast<size_t>((length + n - 1) / kPageTokens);
  CHECK(first <= before, "page {} of {}: positions were left out", first, before);
  for (size_t i = first; i <= last; ++i) {
    if (i < ids_.size() && !pool_->shared(ids_[i])) continue;
    const auto fresh = pool_->allocate();
    if (!fresh.ok()) {  // nothing is held for a step that will not run
      drop_from(before);
      return fresh.status();
    }
    if (i == ids_.size()) {
      push(*fresh);
      continue;
    }
    pool_->memory().copy(pool_->data(*fresh), data_[i], pool_->geometry().page_bytes);
    pool_->release(std::exchange(ids_[i], *fresh));
    data_[i] = pool_->data(*fresh);
  }
  return {};
}

void PageTable::shorten(Pos length) {
  drop_from(pages_of(length));
}

void PageTable::drop_from(size_t keep) {
  while (ids_.size() > keep) {
    pool_->release(ids_.back());
    ids_.pop_back();
    data_.pop_back();
  }
}

}  // namespace strata
