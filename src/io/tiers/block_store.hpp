// SPDX-License-Identifier: Apache-2.0
// Blocks of buffers in an unnamed file: transfers of consecutive blocks, each block with a checksum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/tiers/block_sums.hpp"
#include "io/tiers/direct_file.hpp"
#include "io/tiers/disk_queue.hpp"
#include "shoal/base/types.hpp"
#include "shoal/device/tier.hpp"
#include "shoal/io/nvme_options.hpp"

namespace shoal::io {

/// Whole sectors of a buffer, from the first one of a block to the last one of a block, or of the buffer.
struct BlockRange {
  std::size_t buffer = 0;    ///< counted from 0
  std::uint64_t offset = 0;  ///< of the buffer in the file
  Range bytes;               ///< in the buffer
};

/// A block that is not as it was written.
struct WrongBlock {
  std::size_t buffer = 0;
  Range bytes;  ///< in the buffer
};

class BlockStore {
 public:
  static constexpr std::size_t block_bytes = device::Tier::block_bytes;

  /// Reserves so many bytes. staging: memory that is registered with the system, if it allows that.
  BlockStore(std::uint64_t bytes, const NvmeOptions& options, DiskAccess access, Span<std::byte> staging);

  /// In the order of their numbers.
  void add_buffer(std::size_t bytes) { sums_.add_buffer(bytes); }

  using Number = std::uint64_t;
  /// Starts to read a range to memory, which is aligned and has its size. What was never written is zero.
  Number start_up(const BlockRange& range, Span<std::byte> memory);
  /// Starts to write memory, which must not change meanwhile.
  Number start_down(const BlockRange& range, Span<const std::byte> memory);
  /// Waits for it. Returns the first block that is not as it was written; none if all are. SystemError if the system could
  /// not read or write.
  std::optional<WrongBlock> finish(Number number);
  /// Waits until nothing is in flight.
  void finish_all();

  const DiskQueue& queue() const { return *queue_; }
  bool direct() const { return file_.direct(); }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  struct Transfer {
    bool down = false, flips = false;
    BlockRange range;
    Span<const std::byte> memory;
    std::uint64_t request = 0;  // the last one; 0: there was nothing to read
  };
  Number add(const Transfer& transfer);
  std::uint64_t request(bool writes, const BlockRange& range, Range part, Span<std::byte> memory);

  DirectFile file_;
  std::size_t request_bytes_;
  std::vector<std::string> warnings_;
  std::unique_ptr<DiskQueue> queue_;
  BlockSums sums_{block_bytes};
  std::map<Number, Transfer> transfers_;
  Number last_ = 0;
};

}  // namespace shoal::io
