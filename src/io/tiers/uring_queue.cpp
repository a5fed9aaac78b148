// SPDX-License-Identifier: Apache-2.0
// Requests by io_uring (Axboe 2019, "Efficient IO with io_uring"): the system works on them without a thread of ours.
#include <liburing.h>

#include <cstring>

#include "io/tiers/disk_queue.hpp"
#include "io/tiers/open_requests.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/quiet_pump.hpp"

namespace shoal::io {

namespace {

class UringQueue final : public DiskQueue {
 public:
  UringQueue(int file, std::size_t depth, Span<std::byte> registered, std::string& why) : file_(file), depth_(depth) {
    const int status = ::io_uring_queue_init(static_cast<unsigned>(depth), &ring_, 0);
    if (status != 0) {
      why = std::strerror(-status);
      return;
    }
    open_ = true;
    if (registered.empty()) return;
    const iovec memory{registered.data(), registered.size()};
    if (::io_uring_register_buffers(&ring_, &memory, 1) == 0) registered_ = registered;
  }
  ~UringQueue() override {
    if (!open_) return;
    while (requests_.size() > 0) reap();
    ::io_uring_queue_exit(&ring_);
  }
  bool is_open() const { return open_; }

  DiskAccess access() const override { return registered_.empty() ? DiskAccess::uring : DiskAccess::uring_registered; }

  std::uint64_t start(const DiskRequest& request) override {
    while (requests_.size() >= depth_) reap();
    const std::uint64_t number = requests_.add(request);
    submit(number);
    return number;
  }

  void finish(std::uint64_t number) override {
    while (requests_.any_up_to(number)) reap();
    requests_.require_no_problem();
  }

 private:
  void submit(std::uint64_t number) {
    const DiskRequest& request = requests_.at(number);
    io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
    require(entry != nullptr, "io_uring has no room for a request");
    const auto bytes = static_cast<unsigned>(request.memory.size());
    std::byte* const at = request.memory.data();
    const bool fixed =
        registered_.data() <= at && at + bytes <= registered_.data() + registered_.size() && !registered_.empty();
    if (request.writes) {
      fixed ? ::io_uring_prep_write_fixed(entry, file_, at, bytes, request.offset, 0)
            : ::io_uring_prep_write(entry, file_, at, bytes, request.offset);
    } else {
      fixed ? ::io_uring_prep_read_fixed(entry, file_, at, bytes, request.offset, 0)
            : ::io_uring_prep_read(entry, file_, at, bytes, request.offset);
    }
    ::io_uring_sqe_set_data64(entry, number);
    int status = 0;
    do {
      status = ::io_uring_submit(&ring_);
    } while (status == -EINTR || status == -EAGAIN || status == -EBUSY);
    if (status < 0) requests_.advance(number, status);
  }

  /// Waits for at least one request, and takes all that have ended.
  void reap() {
    io_uring_cqe* ended = nullptr;
    while (::io_uring_peek_cqe(&ring_, &ended) != 0) {
      __kernel_timespec pause{0, 1'000'000};
      if (::io_uring_wait_cqe_timeout(&ring_, &ended, &pause) == 0) break;
      quiet_pump();
    }
    while (ended != nullptr) {
      const std::uint64_t number = ::io_uring_cqe_get_data64(ended);
      const std::int64_t result = ended->res;
      ::io_uring_cqe_seen(&ring_, ended);
      heartbeat::beat();
      if (requests_.advance(number, result)) submit(number);
      ended = nullptr;
      if (::io_uring_peek_cqe(&ring_, &ended) != 0) ended = nullptr;
    }
  }

  int file_;
  std::size_t depth_;
  io_uring ring_{};
  bool open_ = false;
  Span<std::byte> registered_;
  OpenRequests requests_;
};

}  // namespace

std::unique_ptr<DiskQueue> uring_queue(int file, std::size_t depth, Span<std::byte> registered, std::string& why) {
  auto queue = std::make_unique<UringQueue>(file, depth, registered, why);
  if (!queue->is_open()) return nullptr;
  return queue;
}

}  // namespace shoal::io
