// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/nccl_calls.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/quiet_pump.hpp"

namespace shoal::comm {

namespace {

/// Events are few enough to look at all of them.
constexpr std::size_t most_calls = 256;
constexpr std::chrono::milliseconds between_errors(1), between_events(20);
constexpr std::chrono::microseconds between_tests(20);

}  // namespace

NcclCalls::NcclCalls(double timeout_s, bool keeps_order, std::function<void()> check_errors,
                     std::function<void(const std::string&)> give_up)
    : timeout_(timeout_s), keeps_order_(keeps_order), check_errors_(std::move(check_errors)), give_up_(std::move(give_up)) {
  add_device_operations(*this);
}
NcclCalls::~NcclCalls() { remove_device_operations(*this); }

void NcclCalls::start(const std::shared_ptr<Operation>& operation, const NcclGroup& group,
                      const std::function<void()>& enqueue) {
  look_at_events();
  while (calls_.size() >= most_calls) {
    events_seen_ = {};
    quiet_pump();  // this checks, too
    std::this_thread::sleep_for(between_tests);
  }
  Call call{operation, &group, {}, {}, {}};
  if (!keeps_order_ && !calls_.empty() && calls_.back().group != &group) calls_.back().behind.before_what_follows();
  call.before.record();
  enqueue();
  call.behind.record();
  calls_.push_back(std::move(call));
}

std::vector<const NcclGroup*> NcclCalls::groups() const {
  std::vector<const NcclGroup*> groups;
  for (const Call& call : calls_) {
    if (std::find(groups.begin(), groups.end(), call.group) == groups.end()) groups.push_back(call.group);
  }
  return groups;
}

void NcclCalls::check() {
  const Clock::time_point now = Clock::now();
  if (checking_ || calls_.empty() || now - errors_checked_ < between_errors) return;
  struct Checking {
    bool& on;
    explicit Checking(bool& flag) : on(flag) { on = true; }
    ~Checking() { on = false; }
  } const checking(checking_);
  errors_checked_ = now;
  check_errors_();
  if (now - events_seen_ < between_events) return;
  events_seen_ = now;
  look_at_events();
  report_long_waits(now);
}

void NcclCalls::look_at_events() {
  std::erase_if(calls_, [](const Call& call) { return call.behind.reached(); });
  for (Call& call : calls_) {
    if (!call.reached && call.before.reached()) call.reached = Clock::now();
  }
}

/// A wait for other ranks is a sign of life, as every wait for messages is: a watchdog asks them, and ends the run if one of
/// them is silent, or if all wait.
void NcclCalls::report_long_waits(Clock::time_point now) {
  const auto [operation, seconds] = waiting();
  if (operation == nullptr) return;
  heartbeat::beat();
  if (now - reported_ < std::chrono::duration<double>(long_wait_interval())) return;
  reported_ = now;
  if (long_wait(*operation, seconds) || seconds < timeout_) return;
  give_up_(text("the device has waited ", timeout_, " s for ", operation->describe(), " (comm.timeout)"));
}

DeviceOperations::Waiting NcclCalls::waiting() const {
  const auto first = std::find_if(calls_.begin(), calls_.end(), [](const Call& call) { return call.reached.has_value(); });
  if (first == calls_.end()) return {};
  return {first->operation.get(), std::chrono::duration<double>(Clock::now() - *first->reached).count()};
}

std::string NcclCalls::first() const { return calls_.empty() ? std::string() : calls_.front().operation->describe(); }

}  // namespace shoal::comm
