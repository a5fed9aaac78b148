// SPDX-License-Identifier: Apache-2.0
// A tier that copies as late as it may: bytes come up, and go down, when somebody waits for them, and until then memory
// holds what was there before, or nonsense. Whoever does not wait, or uses memory again too early, gets wrong numbers.
#pragma once

#include <algorithm>
#include <map>
#include <stdexcept>
#include <vector>

#include "shoal/device/tier.hpp"

namespace shoal::zero::test {

class LateTier final : public device::Tier {
 public:
  explicit LateTier(const Memory& memory) : Tier(memory, Where::nvme) {}

  Ticket up(Span<const std::byte> there, Span<std::byte> here) override {
    require_no_other(here);
    std::fill(here.begin(), here.end(), std::byte{0xAB});
    return add({there.data(), here.data(), there.size(), false});
  }
  Ticket down(Span<const std::byte> here, Span<std::byte> there) override {
    require_no_other(here);
    return add({there.data(), const_cast<std::byte*>(here.data()), there.size(), true});
  }
  void wait(Ticket ticket) override {
    const auto found = open_.find(ticket);
    if (found == open_.end()) return;
    const Transfer transfer = found->second;
    open_.erase(found);
    std::byte* const disk = at(transfer.there);
    if (transfer.down) {
      std::copy_n(transfer.here, transfer.bytes, disk);
      std::fill_n(transfer.here, transfer.bytes, std::byte{0xAB});  // it may not be used again as it is
    } else {
      std::copy_n(disk, transfer.bytes, transfer.here);
    }
  }
  void read(Span<const std::byte> there, Span<std::byte> here) override {
    finish();
    std::copy_n(at(there.data()), there.size(), here.begin());
  }
  void write(Span<const std::byte> here, Span<std::byte> there) override {
    finish();
    std::copy(here.begin(), here.end(), at(there.data()));
  }
  device::TierTraffic traffic() const override { return {}; }

  std::size_t most_open() const { return most_open_; }

 private:
  struct Transfer {
    const std::byte* there;
    std::byte* here;
    std::size_t bytes;
    bool down;
  };
  Ticket add(const Transfer& transfer) {
    open_.emplace(++last_, transfer);
    most_open_ = std::max(most_open_, open_.size());
    return last_;
  }
  void finish() {
    while (!open_.empty()) wait(open_.begin()->first);
  }
  /// Memory of two transfers at a time would be a race on a disk.
  void require_no_other(Span<const std::byte> here) const {
    for (const auto& [ticket, other] : open_) {
      if (other.here < here.data() + here.size() && here.data() < other.here + other.bytes) {
        throw std::logic_error("memory of two transfers");
      }
    }
  }
  std::byte* at(const std::byte* there) {
    const Buffer& buffer = buffer_of(there);
    disk_.resize(buffers().back().offset + buffers().back().bytes);
    return disk_.data() + buffer.offset + (there - buffer.begin);
  }

  std::map<Ticket, Transfer> open_;
  Ticket last_ = 0;
  std::size_t most_open_ = 0;
  std::vector<std::byte> disk_;
};

}  // namespace shoal::zero::test
