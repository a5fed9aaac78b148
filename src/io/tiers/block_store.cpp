// SPDX-License-Identifier: Apache-2.0
#include "io/tiers/block_store.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "io/tiers/aligned_memory.hpp"
#include "shoal/base/error.hpp"

namespace shoal::io {

namespace {

static_assert(sector == device::Tier::alignment && BlockStore::block_bytes % sector == 0);

std::unique_ptr<DiskQueue> open_queue(int file, std::size_t depth, Span<std::byte> staging, DiskAccess access,
                                      std::vector<std::string>& warnings) {
  if (access == DiskAccess::threads) return thread_queue(file, depth);
  std::string why;
  auto queue = uring_queue(file, depth, access == DiskAccess::uring_registered ? staging : Span<std::byte>(), why);
  if (queue != nullptr) return queue;
  warnings.push_back(text("io_uring is not available (", why, "): threads read and write"));
  return thread_queue(file, depth);
}

}  // namespace

BlockStore::BlockStore(std::uint64_t bytes, const NvmeOptions& options, DiskAccess access, Span<std::byte> staging)
    : file_(options.dir, bytes),
      request_bytes_(round_up(static_cast<std::size_t>(std::ceil(options.block_mb * 1e6)), sector)),
      warnings_(warnings_of(options.dir)),
      queue_(open_queue(file_.descriptor(), options.queue_depth, staging, access, warnings_)) {
  if (!direct()) warnings_.push_back(text(options.dir, " takes no direct requests: they go through the system's cache"));
}

BlockStore::Number BlockStore::add(const Transfer& transfer) {
  transfers_.emplace(++last_, transfer);
  return last_;
}

/// Requests the bytes `part` of a range's buffer. Returns the number of the last request.
std::uint64_t BlockStore::request(bool writes, const BlockRange& range, Range part, Span<std::byte> memory) {
  std::uint64_t last = 0;
  while (!part.empty()) {
    const std::size_t bytes = std::min(request_bytes_, part.size());
    last = queue_->start({writes, range.offset + part.begin, memory.first(bytes)});
    memory = memory.subspan(bytes);
    part.begin += bytes;
  }
  return last;
}

BlockStore::Number BlockStore::start_up(const BlockRange& range, Span<std::byte> memory) {
  Transfer transfer{false, false, range, memory, 0};
  // Series of blocks that are all on the disk, or all not.
  for (std::size_t begin = range.bytes.begin; begin < range.bytes.end;) {
    const bool there = sums_.written(range.buffer, begin / block_bytes);
    std::size_t end = begin;
    while (end < range.bytes.end && sums_.written(range.buffer, end / block_bytes) == there) {
      end = std::min(end + block_bytes, range.bytes.end);
    }
    const Span<std::byte> part = memory.subspan(begin - range.bytes.begin, end - begin);
    if (there) {
      transfer.request = request(false, range, {begin, end}, part);
    } else {
      std::fill(part.begin(), part.end(), std::byte{0});
    }
    begin = end;
  }
  return add(transfer);
}

BlockStore::Number BlockStore::start_down(const BlockRange& range, Span<const std::byte> memory) {
  sums_.set(range.buffer, range.bytes.begin / block_bytes, memory);
  const Span<std::byte> from(const_cast<std::byte*>(memory.data()), memory.size());  // a write leaves it as it is
  return add({true, block_is_to_flip(), range, memory, request(true, range, range.bytes, from)});
}

std::optional<WrongBlock> BlockStore::finish(Number number) {
  const auto found = transfers_.find(number);
  if (found == transfers_.end()) return std::nullopt;
  const Transfer transfer = found->second;
  transfers_.erase(found);
  if (transfer_is_to_fail()) throw SystemError(std::strerror(EIO));
  if (transfer.request != 0) queue_->finish(transfer.request);
  const BlockRange& range = transfer.range;
  if (transfer.down) {
    file_.forget(range.offset + range.bytes.begin, range.bytes.size());
    if (transfer.flips) file_.flip(range.offset + (range.bytes.begin + range.bytes.end) / 2);
    return std::nullopt;
  }
  const auto differs = sums_.first_that_differs(range.buffer, range.bytes.begin / block_bytes, transfer.memory);
  if (!differs) return std::nullopt;
  return WrongBlock{range.buffer, intersection({*differs * block_bytes, (*differs + 1) * block_bytes}, range.bytes)};
}

void BlockStore::finish_all() {
  for (const auto& [number, transfer] : transfers_) {
    if (transfer.request != 0) queue_->finish(transfer.request);
  }
}

}  // namespace shoal::io
