// SPDX-License-Identifier: Apache-2.0
#include "plan/pipeline/fluid_clock.hpp"

#include <algorithm>
#include <utility>

namespace shoal::plan {

FluidClock::Resource FluidClock::add(double capacity, double credit_s) {
  resources_.push_back({capacity, credit_s, credit_s});
  return resources_.size() - 1;
}

void FluidClock::begin(const Delay& delay, std::coroutine_handle<> process) {
  pauses_.push({now_s_ + delay.seconds, pauses_begun_++, process});
}

/// An activity that shares nothing is a pause.
void FluidClock::begin(const Use& use, std::coroutine_handle<> process) {
  if (use.resources.empty()) return begin(Delay{this, use.seconds / use.most}, process);
  activities_.push_back({{use.resources.begin(), use.resources.end()}, use.seconds, use.most, process});
  changed_ = true;
}

void FluidClock::run() {
  while (true) {
    while (!ready_.empty()) {
      const std::coroutine_handle<> process = ready_.front();
      ready_.pop_front();
      process.resume();
    }
    if (changed_) divide();
    const double next = next_s();
    if (next == unlimited) return;
    advance_to(next);
  }
}

/// The rates of all activities rise together. Those that reach their largest rate, or fill one of their resources, stay at
/// it; the others rise further.
void FluidClock::divide() {
  changed_ = false;
  for (State& resource : resources_) {
    resource.left = resource.available();
    resource.used = 0;
    resource.users = 0;
  }
  for (Activity& activity : activities_) {
    activity.divided = false;
    for (const Resource r : activity.resources) ++resources_[r].users;
  }
  std::vector<Activity*> reached;
  for (std::size_t divided = 0; divided < activities_.size(); divided += reached.size()) {
    double rate = unlimited;
    for (const Activity& activity : activities_) {
      if (!activity.divided) rate = std::min(rate, activity.most);
    }
    for (const State& resource : resources_) {
      if (resource.users > 0) rate = std::min(rate, resource.left / static_cast<double>(resource.users));
    }
    reached.clear();
    for (Activity& activity : activities_) {
      if (!activity.divided && fills(activity, rate)) reached.push_back(&activity);
    }
    for (Activity* activity : reached) {
      activity->divided = true;
      activity->rate = rate;
      for (const Resource r : activity->resources) {
        --resources_[r].users;
        resources_[r].left -= rate;
        resources_[r].used += rate;
      }
    }
  }
}

bool FluidClock::fills(const Activity& activity, double rate) const {
  return activity.most <= rate || std::any_of(activity.resources.begin(), activity.resources.end(), [&](Resource r) {
           return resources_[r].left / static_cast<double>(resources_[r].users) <= rate;
         });
}

/// When the next activity or pause ends, or a resource has no credit left.
double FluidClock::next_s() const {
  double next = unlimited;
  if (!pauses_.empty()) next = pauses_.top().end_s;
  for (const Activity& activity : activities_) next = std::min(next, now_s_ + activity.left_s / activity.rate);
  for (const State& resource : resources_) {
    if (resource.kept_s > 0 && resource.used > resource.capacity) {
      next = std::min(next, now_s_ + resource.kept_s / (resource.used - resource.capacity));
    }
  }
  return std::max(next, now_s_);
}

/// The same sums as in next_s() decide what has ended, so that rounding leaves nothing behind.
void FluidClock::advance_to(double next_s) {
  for (State& resource : resources_) {
    const double gain = resource.capacity - resource.used;
    const bool used_up = resource.kept_s > 0 && gain < 0 && now_s_ + resource.kept_s / -gain <= next_s;
    resource.kept_s = used_up ? 0 : std::clamp(resource.kept_s + gain * (next_s - now_s_), 0.0, resource.credit_s);
    changed_ = changed_ || used_up;
  }
  std::size_t going_on = 0;
  for (Activity& activity : activities_) {
    if (now_s_ + activity.left_s / activity.rate <= next_s) {
      resume(activity.process);
      changed_ = true;
      continue;
    }
    activity.left_s -= activity.rate * (next_s - now_s_);
    Activity& place = activities_[going_on++];
    if (&place != &activity) place = std::move(activity);
  }
  activities_.erase(activities_.begin() + static_cast<std::ptrdiff_t>(going_on), activities_.end());
  now_s_ = next_s;
  while (!pauses_.empty() && pauses_.top().end_s <= next_s) {
    resume(pauses_.top().process);
    pauses_.pop();
  }
}

void Counter::add() {
  ++count_;
  std::erase_if(waiting_, [this](const auto& process) {
    if (process.first > count_) return false;
    clock_->resume(process.second);
    return true;
  });
}

}  // namespace shoal::plan
