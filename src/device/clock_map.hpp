// SPDX-License-Identifier: Apache-2.0
// Translates times of a device's clock to those of the host's.
//
// [Note: two clocks] Both clocks count nanoseconds, from different zeros, and one of them runs faster by some parts in a
// million, which changes with temperature. So both are read together at the start and at each flush of the trace, and the
// times between two such readings are mapped along the straight line through them: an error of a reading, at most half the
// time that the reading took, does not grow, and drift between two readings cancels. The lines of successive readings form
// one curve that rises everywhere, so spans that do not overlap by the device's clock do not overlap by the host's. A span
// that was still going on at the last flush began before it; for such spans the line before is kept.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace shoal::device {

/// The same moment by both clocks, in nanoseconds.
struct ClockReading {
  std::int64_t device_ns = 0, host_ns = 0;
};

class ClockMap {
 public:
  /// Later than the readings before; one that is not later by both clocks is left out.
  void add(const ClockReading& reading) {
    if (count_ > 0) {
      const ClockReading& last = readings_[count_ - 1];
      if (reading.device_ns <= last.device_ns || reading.host_ns <= last.host_ns) return;
    }
    if (count_ == readings_.size()) {
      readings_[0] = readings_[1];
      readings_[1] = readings_[2];
      --count_;
    }
    readings_[count_++] = reading;
  }

  /// Before the second reading, the clocks count as equally fast.
  std::int64_t host_ns(std::int64_t device_ns) const {
    if (count_ < 2) return device_ns - readings_[0].device_ns + readings_[0].host_ns;
    const std::size_t line = count_ == 3 && device_ns >= readings_[1].device_ns ? 1 : 0;
    const ClockReading &from = readings_[line], &to = readings_[line + 1];
    const double rate = static_cast<double>(to.host_ns - from.host_ns) / static_cast<double>(to.device_ns - from.device_ns);
    return from.host_ns + std::llround(static_cast<double>(device_ns - from.device_ns) * rate);
  }

 private:
  std::array<ClockReading, 3> readings_{};  // the last ones
  std::size_t count_ = 0;
};

}  // namespace shoal::device
