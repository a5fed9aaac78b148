// SPDX-License-Identifier: Apache-2.0
// A tier on a local disk (device/tier.hpp): one file per rank, which has no name, so that nothing can be left behind, two
// runs cannot meet in a directory, and nobody can put a link in its place. Its space is reserved at the start. Every block
// has a checksum in memory, which is compared when the block comes up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/device/tier.hpp"
#include "shoal/io/nvme_options.hpp"

namespace shoal::io {

struct BlockRange;

class NvmeTier final : public device::Tier {
 public:
  /// Reserves the space that `memory` has on disks: an Error if there is not enough, or if the directory cannot be used.
  /// `memory` must outlive this object. access: the first way to try; the next ones are tried if the system refuses it.
  NvmeTier(const Memory& memory, const NvmeOptions& options, DiskAccess access = DiskAccess::uring_registered);
  ~NvmeTier() override;

  Ticket up(Span<const std::byte> there, Span<std::byte> here) override;
  Ticket down(Span<const std::byte> here, Span<std::byte> there) override;
  void wait(Ticket ticket) override;
  void read(Span<const std::byte> there, Span<std::byte> here) override;
  void write(Span<const std::byte> here, Span<std::byte> there) override;
  device::TierTraffic traffic() const override;

  DiskAccess access() const;
  /// False: the file system takes no direct requests, so the system caches what is read and written.
  bool direct() const;
  /// What a user should know of the directory, a line each: it lies in memory, or on other machines.
  const std::vector<std::string>& warnings() const;

 private:
  struct State;
  BlockRange range_of(Span<const std::byte> there) const;
  Span<std::byte> hold(const BlockRange& range, bool read);
  void put_back();
  void in_blocks(Span<const std::byte> there, bool writes,
                 const std::function<void(std::size_t first, Span<std::byte> part)>& use);
  std::unique_ptr<State> state_;
};

}  // namespace shoal::io
