// SPDX-License-Identifier: Apache-2.0
#include "shoal/config/faults.hpp"

#include <algorithm>
#include <charconv>
#include <tuple>

#include "config/checks/validate.hpp"
#include "shoal/base/error.hpp"
#include "shoal/config/value.hpp"

namespace shoal::config {

namespace {

std::optional<std::size_t> number(std::string_view word) {
  std::size_t value = 0;
  word = trimmed(word);
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

/// "hang", or "hang@3:1".
std::optional<Fault> fault(std::string_view word, const FaultOptions& options) {
  Fault result{{}, options.step, options.rank};
  const std::size_t at = word.find('@');
  const auto kind = value_named<FaultKind>(trimmed(word.substr(0, at)));
  if (!kind) return std::nullopt;
  result.kind = *kind;
  if (at == std::string_view::npos) return result;
  const std::string_view place = word.substr(at + 1);
  const std::size_t colon = place.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto step = number(place.substr(0, colon)), rank = number(place.substr(colon + 1));
  if (!step || !rank || *step == 0) return std::nullopt;
  result.step = *step;
  result.rank = *rank;
  return result;
}

bool saves_at_or_after(const Options& o, std::size_t step) {
  const std::size_t every = o.checkpoint.every, steps = o.train.steps;
  const std::size_t last = o.checkpoint.last ? steps : every == 0 ? 0 : steps / every * every;
  return step <= last;
}

std::string problem_of(const Fault& fault, const Options& o, int ranks) {
  const std::string name = text("fault.kind = ", o.fault.kind, ": ", name_of(fault.kind));
  if (fault.rank >= static_cast<std::size_t>(ranks)) {
    return text(name, " on rank ", fault.rank, ", but the ranks are 0 to ", ranks - 1);
  }
  if (fault.step > o.train.steps) {
    return text(name, " in step ", fault.step, ", but the run ends after step ", o.train.steps, " (train.steps)");
  }
  const bool saves = saves_at_or_after(o, fault.step);
  if (fault.kind == FaultKind::corrupt && fault.rank != 0) {
    return text(name, " on rank ", fault.rank, ", but rank 0 alone completes checkpoints; allowed: rank 0");
  }
  if (fault.kind == FaultKind::corrupt && !saves) {
    return text(name, " needs a checkpoint at that step or later; set checkpoint.every, or checkpoint.last = true");
  }
  if (fault.kind == FaultKind::io_error && !saves && o.trace.level == trace::Level::off) {
    return text(
        name,
        " needs a file that is written at that step or later; set checkpoint.every, checkpoint.last = true, or trace.level");
  }
  const bool of_tier = fault.kind == FaultKind::tier_flip || fault.kind == FaultKind::tier_error;
  if (of_tier && o.offload.optimizer != Where::nvme && o.offload.params != Where::nvme) {
    return text(name, " needs states on a disk; set offload.optimizer = nvme, or offload.params = nvme");
  }
  return {};
}

}  // namespace

std::optional<std::vector<Fault>> faults(const FaultOptions& options) {
  std::vector<Fault> result;
  if (trimmed(options.kind) == "none") return result;
  for (std::size_t begin = 0; begin <= options.kind.size();) {
    const std::size_t comma = std::min(options.kind.find(',', begin), options.kind.size());
    const auto found = fault(std::string_view(options.kind).substr(begin, comma - begin), options);
    if (!found) return std::nullopt;
    result.push_back(*found);
    begin = comma + 1;
  }
  return result;
}

std::string describe(const Fault& fault) {
  return text(name_of(fault.kind), " in step ", fault.step, " on rank ", fault.rank);
}

std::vector<std::string> fault_problems(const Options& options, int ranks) {
  const FaultOptions& o = options.fault;
  const auto list = faults(o);
  if (!list) {
    return {text("fault.kind = ", shown(o.kind), ": not a list of faults; allowed: none, or kill, hang, slow, io_error, ",
                 "corrupt, tier_flip, tier_error, each alone or as KIND@STEP:RANK, with commas between them")};
  }
  std::vector<std::string> problems;
  const FaultOptions unset;
  for (const auto& [name, value, otherwise] :
       {std::tuple("fault.step", o.step, unset.step), {"fault.rank", o.rank, unset.rank}}) {
    if (list->empty() && value != otherwise) {
      problems.push_back(text(name, " = ", value, " has no effect with fault.kind = none; it needs another fault.kind"));
    }
  }
  for (const Fault& fault : *list) {
    std::string problem = problem_of(fault, options, ranks);
    if (!problem.empty()) problems.push_back(std::move(problem));
  }
  return problems;
}

}  // namespace shoal::config
