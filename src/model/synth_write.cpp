// A spec onto the disk: all cores fill one chunk while the last one is written.
#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "model/synth.h"
#include "model/synth_keys.h"
#include "os/file.h"
#include "tensor/gguf_writer.h"

namespace strata {
namespace {

constexpr size_t kTaskBytes = size_t{256} << 10;  // of a chunk, filled by one thread at a time

void fill_chunk(const SynthSpec& spec, const SynthTensor& tensor, WorkerPool& pool, uint64_t offset,
                std::span<std::byte> chunk) {
  const auto block = static_cast<size_t>(traits(tensor.type).block_bytes);
  const auto first = static_cast<int64_t>(offset / block);
  const size_t task_blocks = kTaskBytes / block, n_blocks = chunk.size() / block;
  const auto task = [&](int begin, int end, int /*thread*/) {
    const auto at = static_cast<size_t>(begin) * block, bytes = static_cast<size_t>(end - begin) * block;
    fill_synth(spec, tensor, first + begin, chunk.subspan(at, bytes));
  };
  pool.parallel_for(static_cast<int>(n_blocks), static_cast<int>(task_blocks), task);
}

std::string shard_prefix(const std::string& path) {
  constexpr std::string_view kSuffix = ".gguf";
  return path.ends_with(kSuffix) ? path.substr(0, path.size() - kSuffix.size()) : path;
}

Status check_room(const std::string& path, uint64_t need) {
  ASSIGN_OR_RETURN(const uint64_t have, free_disk_bytes(path));
  if (need <= have) return {};
  return {Code::io,
          fmt::format("{} needs {} ({} bytes), and its disk has {} free", path, format_bytes(need), need,
                      format_bytes(have)),
          "free space, write elsewhere, or ask for less (layers, ngram-rows, experts); nothing was written"};
}

}  // namespace

std::vector<std::string> synth_paths(const SynthSpec& spec, const std::string& path) {
  if (!spec.split) return {path};
  return {gguf_shard_path(shard_prefix(path), 0, 2), gguf_shard_path(shard_prefix(path), 1, 2)};
}

Result<SynthFiles> write_synth(const SynthSpec& spec, const std::string& path, WorkerPool& pool,
                               const SynthProgress& progress) {
  ASSIGN_OR_RETURN(const std::vector<SynthTensor> tensors, synth_tensors(spec));
  GgufWriter writer;
  set_synth_keys(spec, writer);
  SynthFiles files;
  uint64_t done = 0;
  for (const SynthTensor& tensor : tensors) {
    const auto fill = [&](uint64_t offset, std::span<std::byte> chunk) -> Status {
      RETURN_IF_ERROR(progress(done, files.bytes));
      fill_chunk(spec, tensor, pool, offset, chunk);
      done += chunk.size();
      return {};
    };
    writer.add_tensor(tensor.name, tensor.type, tensor.shape, fill, tensor.shard);
  }
  ASSIGN_OR_RETURN(files.bytes, writer.bytes(spec.split ? 2 : 0));
  RETURN_IF_ERROR(check_room(path, files.bytes));
  files.paths = synth_paths(spec, path);
  files.n_tensors = tensors.size();
  if (spec.split)
    RETURN_IF_ERROR(writer.write_shards(shard_prefix(path), 2).status());
  else
    RETURN_IF_ERROR(writer.write(path));
  return files;
}

}  // namespace strata
