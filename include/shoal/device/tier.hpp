// SPDX-License-Identifier: Apache-2.0
// A tier that kernels do not reach ([Note: tiers] in base/memory.hpp), and how its bytes come to memory and back. Its
// buffers are Spans like all others, but nobody may read or write at their addresses:
//
//   up()    copies a part of a buffer to memory, where kernels use it
//   down()  copies it back
//   read(), write(), and in_pieces() of device/memory.hpp, which calls them, are for files and initial values
//
// A transfer is started and awaited later, as a collective is. No tier knows what its bytes mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/base/types.hpp"
#include "shoal/device/memory.hpp"

namespace shoal::device {

/// Bytes that went up and down, and seconds in which the host did nothing but wait for them.
struct TierTraffic {
  std::uint64_t up = 0, down = 0;
  double wait_s = 0;
  TierTraffic& operator+=(const TierTraffic& more) {
    up += more.up;
    down += more.down;
    wait_s += more.wait_s;
    return *this;
  }
  friend TierTraffic operator-(const TierTraffic& all, const TierTraffic& before) {
    return {all.up - before.up, all.down - before.down, all.wait_s - before.wait_s};
  }
};

class Tier {
 public:
  /// Transfers begin at multiples of so many bytes of a buffer.
  static constexpr std::size_t block_bytes = std::size_t{1} << 18U;
  /// What the memory of a transfer is aligned to, and its size filled up to.
  static constexpr std::size_t alignment = 4096;

  /// Serves the buffers that `memory` has in this tier. All of them must be taken before the first transfer.
  Tier(const Memory& memory, Where where);
  virtual ~Tier();
  Tier(const Tier&) = delete;
  Tier& operator=(const Tier&) = delete;

  /// A transfer; 0: none.
  using Ticket = std::uint64_t;
  /// Starts to copy `there`, which begins with a block of a buffer and ends with one, or with the buffer, to memory that is
  /// aligned and has room for whole multiples of `alignment`. What was never written is zero.
  virtual Ticket up(Span<const std::byte> there, Span<std::byte> here) = 0;
  /// The other way. `here` must not change before the transfer has ended.
  virtual Ticket down(Span<const std::byte> here, Span<std::byte> there) = 0;
  /// The host waits until the transfer has ended. Messages go on meanwhile; only what the tier completes is a heartbeat.
  /// Throws an Error if it failed, or if the bytes that came up are not those that went down.
  virtual void wait(Ticket ticket) = 0;

  /// Any part of a buffer, after all transfers. The host waits.
  virtual void read(Span<const std::byte> there, Span<std::byte> here) = 0;
  virtual void write(Span<const std::byte> here, Span<std::byte> there) = 0;

  virtual TierTraffic traffic() const = 0;

 protected:
  struct Buffer {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
    std::uint64_t offset = 0;  ///< of its first byte among those of all buffers of the tier
    Kind kind = Kind::moments;
    const char* label = "";
  };
  /// By address. Found at the first call.
  const std::vector<Buffer>& buffers() const;
  /// The buffer in which an address lies.
  const Buffer& buffer_of(const std::byte* address) const;

 private:
  friend Tier* tier_of(const void* address);
  bool holds(const std::byte* address) const;

  const Memory& memory_;
  Where where_;
  mutable std::vector<Buffer> buffers_;
};

/// The tier whose buffers include this address; null: it lies in memory.
Tier* tier_of(const void* address);

/// Pieces of a buffer in a tier: in_pieces() of device/memory.hpp for such values.
void in_pieces_of_tier(Tier& tier, Span<float> values, Access access, std::size_t alignment,
                       const std::function<void(std::size_t first, Span<float> piece)>& use);

}  // namespace shoal::device
