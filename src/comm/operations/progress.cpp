// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include "comm/operations/device_operations.hpp"
#include "comm/operations/open_operations.hpp"
#include "shoal/base/pump.hpp"
#include "shoal/comm/wait.hpp"

namespace shoal::comm {

namespace {

using Clock = std::chrono::steady_clock;

/// progress() continues as long as operations complete (a tree then sends its next messages), but starts no new pass after
/// this time, so that the caller's kernels continue. The last step of an operation may add some milliseconds.
constexpr std::chrono::milliseconds longest_progress(5);

struct Listener {
  std::function<void()> function;
  std::atomic<bool> called = false;
} listener;

DeviceOperations* on_device = nullptr;

/// Called by pump().
void move_at_pump() {
  listen_if_called();
  progress();
}

void set_or_clear_pump() {
  const bool needed = listener.function != nullptr || on_device != nullptr || !OpenOperations::none();
  set_pump(needed ? move_at_pump : nullptr);
}

}  // namespace

void listen_if_called() {
  if (!listener.called.load(std::memory_order_relaxed) || !listener.called.exchange(false)) return;
  if (on_device != nullptr) {
    const auto [operation, seconds] = on_device->waiting();
    if (operation != nullptr && long_wait(*operation, seconds)) return;
  }
  if (listener.function != nullptr) listener.function();
}

void set_listener(std::function<void()> function) {
  listener.function = std::move(function);
  set_or_clear_pump();
}

void add_device_operations(DeviceOperations& operations) {
  on_device = &operations;
  set_or_clear_pump();
}

void remove_device_operations(const DeviceOperations& operations) {
  if (on_device == &operations) on_device = nullptr;
  set_or_clear_pump();
}

void call_listener() { listener.called.store(true, std::memory_order_relaxed); }

void record_until_now(trace::Kind kind, std::string_view name, std::int64_t begin_ns, std::int16_t unit, std::int16_t group,
                      std::uint64_t bytes) {
  trace::Event event;
  event.begin_ns = begin_ns;
  event.duration_ns = trace::now_ns() - begin_ns;
  event.bytes = bytes;
  event.name = trace::name_index(name);
  event.step = trace::step();
  event.unit = unit;
  event.kind = static_cast<std::uint16_t>(kind);
  event.group = group;
  event.depth = 1;  // never an outermost event: waits are within a phase, and collectives overlap with other events
  trace::record(event);
}

std::vector<std::shared_ptr<Operation>>& OpenOperations::open() {
  static std::vector<std::shared_ptr<Operation>> operations;
  return operations;
}

/// Kernels within an operation's step also call pump(), which must not advance the operation again.
struct OpenOperations::Pass {
  Pass() { advancing_ = true; }
  ~Pass() {
    advancing_ = false;
    std::erase_if(open(), [](const auto& operation) { return operation->done_; });
    set_or_clear_pump();
  }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;
};

void OpenOperations::add(const std::shared_ptr<Operation>& operation) {
  open().push_back(operation);
  set_pump(move_at_pump);
}

bool OpenOperations::begin(Operation& operation) {
  const Pass pass;
  return operation.step();
}

void OpenOperations::advance_nested(Operation& nested) {
  if (nested.step()) completed_ = true;
}

bool OpenOperations::advance_all() {
  const Pass pass;
  completed_ = false;
  for (std::size_t i = 0; i < open().size(); ++i) {  // NOLINT(modernize-loop-convert): the list may grow and move
    const std::shared_ptr<Operation> operation = open()[i];
    if (operation->step()) completed_ = true;
  }
  return completed_;
}

void OpenOperations::abandon(const std::shared_ptr<Operation>& operation) {
  static std::vector<std::shared_ptr<Operation>> abandoned;
  abandoned.push_back(operation);
  std::erase(open(), operation);
}

bool Operation::step() {
  if (done_) return false;
  const OpenOperations::Stepping stepping(*this);
  try {
    advance_on_queue();
  } catch (...) {
    done_ = true;  // failed: it must not be advanced again while the exception ends the run
    throw;
  }
  if (done_ && traced_) record_until_now(trace::Kind::collective, name(), begin_ns_, unit_, group_, bytes_);
  return done_;
}

void Operation::advance_on_queue() {
  const std::optional<device::Queue> own = queue();
  if (!own) {
    done_ = advance();
    return;
  }
  const device::OnQueue kernels_go_to(*own);
  done_ = advance();
  if (done_) enqueued_.record();
}

void progress() {
  if (on_device != nullptr) on_device->check();
  if (OpenOperations::none() || OpenOperations::busy()) return;
  const Clock::time_point begin = Clock::now();
  while (OpenOperations::advance_all() && !OpenOperations::none() && Clock::now() - begin < longest_progress) {
  }
}

}  // namespace shoal::comm
