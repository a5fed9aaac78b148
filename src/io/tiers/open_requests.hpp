// SPDX-License-Identifier: Apache-2.0
// The requests of a disk queue that have not ended, by number, and what became of those that failed.
#pragma once

#include <cerrno>
#include <cstring>
#include <map>
#include <string>

#include "io/files/files.hpp"
#include "io/tiers/disk_queue.hpp"
#include "shoal/base/error.hpp"

namespace shoal::io {

class OpenRequests {
 public:
  std::uint64_t add(const DiskRequest& request) {
    left_.emplace(++last_, request);
    return last_;
  }
  std::size_t size() const { return left_.size(); }
  /// True if this one or one before it has not ended.
  bool any_up_to(std::uint64_t number) const { return !left_.empty() && left_.begin()->first <= number; }
  /// What is left of a request.
  const DiskRequest& at(std::uint64_t number) const { return left_.at(number); }

  /// The system has read or written so many bytes (a file that ends counts as an error), or returned an error as a negative
  /// number. True if more of the request is left, which must be asked for again.
  bool advance(std::uint64_t number, std::int64_t result) {
    DiskRequest& request = left_.at(number);
    if (result == -EINTR || result == -EAGAIN) return true;
    if (result > 0 && static_cast<std::size_t>(result) < request.memory.size()) {
      request.offset += static_cast<std::uint64_t>(result);
      request.memory = request.memory.subspan(static_cast<std::size_t>(result));
      return true;
    }
    if (result <= 0 && problem_.empty()) {
      problem_ =
          text(described(request), ": ", result == 0 ? "the file ends there" : std::strerror(static_cast<int>(-result)));
    }
    left_.erase(number);
    return false;
  }

  /// SystemError if a request has failed.
  void require_no_problem() const {
    if (!problem_.empty()) throw SystemError(problem_);
  }

 private:
  std::map<std::uint64_t, DiskRequest> left_;
  std::uint64_t last_ = 0;
  std::string problem_;
};

}  // namespace shoal::io
