// SPDX-License-Identifier: Apache-2.0
#include "zero/gather_plan.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "shoal/base/error.hpp"
#include "zero/lifetimes.hpp"

namespace shoal::zero {

namespace {

/// Bytes of gathered parameters during each use, and their limit.
class Live {
 public:
  Live(std::size_t uses, double limit_mb)
      : bytes_(uses, 0),
        limit_(limit_mb == 0 ? std::numeric_limits<std::size_t>::max() : static_cast<std::size_t>(limit_mb * 1e6)) {}

  /// Returns true if this many bytes more are within the limit during all uses begin ... end - 1.
  bool fits(std::size_t begin, std::size_t end, std::size_t bytes) const {
    return std::all_of(at(begin), at(end), [&](std::size_t live) { return live + bytes <= limit_; });
  }
  void add(std::size_t begin, std::size_t end, std::size_t bytes) {
    for (std::size_t use = begin; use < end; ++use) bytes_[use] += bytes;
  }
  std::size_t bytes(std::size_t use) const { return bytes_[use]; }
  /// The use with the most bytes, if they exceed the limit.
  std::optional<std::size_t> over() const {
    const auto most = std::max_element(bytes_.begin(), bytes_.end());
    if (most == bytes_.end() || *most <= limit_) return std::nullopt;
    return static_cast<std::size_t>(most - bytes_.begin());
  }

 private:
  std::vector<std::size_t>::const_iterator at(std::size_t use) const {
    return bytes_.begin() + static_cast<std::ptrdiff_t>(use);
  }

  std::vector<std::size_t> bytes_;
  std::size_t limit_;
};

/// One for each series of consecutive uses that include a unit, or one for all its uses if it is not released after forward.
std::vector<GatherLifetime> lifetimes_without_prefetch(const UseOrder& uses, const std::vector<std::size_t>& bytes_of,
                                                       bool keep_after_forward) {
  std::vector<GatherLifetime> result;
  for (std::size_t use = 0; use < uses.size(); ++use) {
    for (const int unit : uses[use]) {
      if (bytes_of[static_cast<std::size_t>(unit)] == 0) continue;
      const auto same = [&](const GatherLifetime& gather) { return gather.unit == unit; };
      const auto before = std::find_if(result.rbegin(), result.rend(), same);
      if (before != result.rend() && (keep_after_forward || before->last + 1 >= use)) {
        before->last = use;
      } else {
        result.push_back({unit, use, use, use});
      }
    }
  }
  return result;
}

/// Sets when gathers start: `prefetch` gathers ahead, as far as the limit leaves memory for them.
void plan_starts(std::vector<GatherLifetime>& gather_lifetimes, const std::vector<std::size_t>& bytes_of,
                 std::size_t prefetch, Live& live) {
  for (std::size_t k = 0; k < gather_lifetimes.size(); ++k) {
    GatherLifetime& gather = gather_lifetimes[k];
    const std::size_t bytes = bytes_of[static_cast<std::size_t>(gather.unit)];
    gather.start = k < prefetch ? 0 : std::min(gather.first, gather_lifetimes[k - prefetch].first);
    if (k > 0)
      gather.start = std::max(gather.start, gather_lifetimes[k - 1].start);  // gathers start in the order of the lifetimes
    while (gather.start < gather.first && !live.fits(gather.start, gather.first, bytes)) ++gather.start;
    live.add(gather.start, gather.first, bytes);
  }
}

/// Joins two lifetimes of a unit if the gather for the second one would start while the unit is still there, or as soon as
/// it is released. So a unit that stays counts as one that is gathered ahead, and needs no memory beyond that.
void join_near_uses(std::vector<GatherLifetime>& gather_lifetimes) {
  std::vector<GatherLifetime> joined;
  std::map<int, std::size_t> latest;  // by unit: index in `joined`
  for (const GatherLifetime& gather : gather_lifetimes) {
    const auto before = latest.find(gather.unit);
    if (before != latest.end() && gather.start <= joined[before->second].last + 1) {
      joined[before->second].last = gather.last;
      continue;
    }
    latest[gather.unit] = joined.size();
    joined.push_back(gather);
  }
  gather_lifetimes = std::move(joined);
}

/// Gathers start in their order. One that finds too many in flight waits for the oldest, and a use for those of its units.
std::vector<Calls> calls_of(const std::vector<GatherLifetime>& lifetimes, std::size_t uses) {
  std::vector<Calls> by_use(uses);
  std::deque<std::size_t> gathering;
  std::size_t next = 0;
  for (std::size_t use = 0; use < by_use.size(); ++use) {
    const auto wait_for_oldest = [&] {
      by_use[use].push_back({Call::Kind::wait, gathering.front()});
      gathering.pop_front();
    };
    const auto is_needed = [&](std::size_t k) { return lifetimes[k].first <= use; };
    for (; next < lifetimes.size() && lifetimes[next].start == use; ++next) {
      if (gathering.size() == messages_in_flight) wait_for_oldest();
      by_use[use].push_back({Call::Kind::start, next});
      gathering.push_back(next);
    }
    while (std::any_of(gathering.begin(), gathering.end(), is_needed)) wait_for_oldest();
  }
  return by_use;
}

}  // namespace

GatherPlan plan_gathers(const UseOrder& uses, const std::vector<std::size_t>& bytes_of,
                        const std::vector<std::string>& names, const ZeroOptions& options) {
  GatherPlan plan{lifetimes_without_prefetch(uses, bytes_of, !options.reshard_after_forward), 0, {}};
  Live live(uses.size(), options.max_live_mb);
  const auto bytes = [&](const GatherLifetime& gather) { return bytes_of[static_cast<std::size_t>(gather.unit)]; };
  for (const GatherLifetime& gather : plan.gather_lifetimes) live.add(gather.first, gather.last + 1, bytes(gather));
  if (const auto use = live.over()) {
    std::string together;
    for (const GatherLifetime& gather : plan.gather_lifetimes) {
      if (gather.first <= *use && *use <= gather.last) {
        together += (together.empty() ? "" : ", ") + names[static_cast<std::size_t>(gather.unit)];
      }
    }
    require_input(false, "zero.max_live_mb = ", options.max_live_mb, ": the units that are needed together (", together,
                  ") take ", static_cast<double>(live.bytes(*use)) / 1e6, " MB; allowed: at least that, or auto",
                  options.reshard_after_forward ? "" : " (zero.reshard_after_forward = true needs less)");
  }
  std::vector<GatherLifetime>& gather_lifetimes = plan.gather_lifetimes;
  plan_starts(gather_lifetimes, bytes_of, options.prefetch_units, live);
  join_near_uses(gather_lifetimes);

  std::vector<Lifetime> lifetimes;
  lifetimes.reserve(gather_lifetimes.size());
  for (const GatherLifetime& gather : gather_lifetimes) lifetimes.push_back({bytes(gather), gather.start, gather.last});
  const MemoryLayout layout = lay_out(lifetimes);
  for (std::size_t k = 0; k < gather_lifetimes.size(); ++k) gather_lifetimes[k].offset = layout.offsets[k];
  plan.bytes = layout.bytes;
  plan.calls = calls_of(gather_lifetimes, uses.size());
  return plan;
}

GatherPlan plan_gathers(const UseOrder& uses, const std::vector<model::UnitLayout>& units,
                        const std::vector<ShardLayout>& layouts, DType dtype, const ZeroOptions& options, bool overlap) {
  std::vector<std::size_t> bytes;
  std::vector<std::string> names;
  for (std::size_t u = 0; u < units.size(); ++u) {
    bytes.push_back(layouts[u].gathered ? layouts[u].elements * size_of(dtype) : 0);
    names.push_back(units[u].name);
  }
  ZeroOptions zero = options;
  if (!overlap) zero.prefetch_units = 0;
  return plan_gathers(uses, bytes, names, zero);
}

}  // namespace shoal::zero
