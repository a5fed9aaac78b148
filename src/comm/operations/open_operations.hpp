// SPDX-License-Identifier: Apache-2.0
// The operations in flight on this rank. There is one list for all groups, since a wait for one operation should advance all
// of them. An operation that is started within another one's advance() is tested by that one only: the library advances all
// its messages whichever of them is tested, and each test costs a system call or more.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "shoal/base/trace.hpp"
#include "shoal/comm/communicator.hpp"

namespace shoal::comm {

class OpenOperations {
 public:
  static void add(const std::shared_ptr<Operation>& operation);
  /// The first step of an operation. Returns true if it is complete.
  static bool begin(Operation& operation);
  /// A step of a sub-operation. The operation that started it acts on its completion.
  static void advance_nested(Operation& nested);
  /// During an object's lifetime, a step of this operation is taken. Steps may be nested.
  class Stepping {
   public:
    explicit Stepping(const Operation& operation) : before_(std::exchange(stepping_, &operation)) {}
    ~Stepping() { stepping_ = before_; }
    Stepping(const Stepping&) = delete;
    Stepping& operator=(const Stepping&) = delete;

   private:
    const Operation* before_;
  };
  /// The innermost of them; null if there is none.
  static const Operation* stepping() { return stepping_; }
  /// The queue that it names, if it names one.
  static std::optional<device::Queue> queue_of_step() { return stepping_ == nullptr ? std::nullopt : stepping_->queue(); }
  static bool none() { return open().empty(); }
  static bool busy() { return advancing_; }

  /// One step of each operation, also of those that are added during the pass. Returns true if any operation or
  /// sub-operation has completed.
  static bool advance_all();
  /// Gives up an operation: it is not advanced any more, but stays alive, since MPI may still write to its members.
  static void abandon(const std::shared_ptr<Operation>& operation);

 private:
  struct Pass;
  static std::vector<std::shared_ptr<Operation>>& open();
  static inline bool advancing_ = false, completed_ = false;
  static inline const Operation* stepping_ = nullptr;
};

/// Calls the listener (comm/wait.hpp) if call_listener() was called since it was last called.
void listen_if_called();

/// Records a trace event that ends now.
void record_until_now(trace::Kind kind, std::string_view name, std::int64_t begin_ns, std::int16_t unit, std::int16_t group,
                      std::uint64_t bytes);

}  // namespace shoal::comm
