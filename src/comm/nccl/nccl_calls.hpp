// SPDX-License-Identifier: Apache-2.0
// The operations that were handed to NCCL and that the device has not finished.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/operations/device_operations.hpp"
#include "shoal/comm/communicator.hpp"
#include "shoal/device/queue.hpp"

namespace shoal::comm {

/// What is enqueued when it is started: the request is then complete.
class NcclOperation final : public Operation {
 public:
  /// name: of static lifetime. queue: where it goes if it is started by itself. enqueue: hands it to NCCL.
  NcclOperation(std::string_view name, std::string described, device::Queue queue, std::function<void()> enqueue)
      : name_(name), described_(std::move(described)), queue_(queue), enqueue_(std::move(enqueue)) {}
  bool advance() override {
    enqueue_();
    return true;
  }
  std::string_view name() const override { return name_; }
  std::string describe() const override { return described_; }

 protected:
  std::optional<device::Queue> queue() const override { return queue_; }
  bool whole_at_start() const override { return true; }

 private:
  std::string_view name_;
  std::string described_;
  device::Queue queue_;
  std::function<void()> enqueue_;
};

struct NcclGroup;

class NcclCalls final : public DeviceOperations {
 public:
  /// keeps_order: NCCL lets the device carry out calls of different groups in the order in which they were made; otherwise
  /// each waits on the device for the last one of another group. check_errors(): fails if NCCL has met an error; called at
  /// most once in a millisecond. give_up(message): ends all communicators and fails.
  NcclCalls(double timeout_s, bool keeps_order, std::function<void()> check_errors,
            std::function<void(const std::string&)> give_up);
  ~NcclCalls() override;
  NcclCalls(const NcclCalls&) = delete;
  NcclCalls& operator=(const NcclCalls&) = delete;

  /// enqueue() puts the operation of this group on the current queue. If too many operations are unfinished, this waits
  /// until some are done.
  void start(const std::shared_ptr<Operation>& operation, const NcclGroup& group, const std::function<void()>& enqueue);
  /// "all_gather #17 of all, 4096 bytes": the first unfinished one; empty if there is none.
  std::string first() const;
  bool none() const { return calls_.empty(); }
  /// The groups of unfinished operations, first the one of the oldest.
  std::vector<const NcclGroup*> groups() const;

  void check() override;
  Waiting waiting() const override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Call {
    std::shared_ptr<Operation> operation;
    const NcclGroup* group;
    device::Event before, behind;
    std::optional<Clock::time_point> reached;  // when the device had come to it, as far as this rank has seen
  };
  void look_at_events();
  void report_long_waits(Clock::time_point now);

  double timeout_;
  bool keeps_order_;
  std::function<void()> check_errors_;
  std::function<void(const std::string&)> give_up_;
  std::deque<Call> calls_;
  Clock::time_point errors_checked_, events_seen_, reported_;
  bool checking_ = false;
};

}  // namespace shoal::comm
