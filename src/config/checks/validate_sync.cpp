// SPDX-License-Identifier: Apache-2.0
// Contradictions between options of sync, and options that cannot be combined with nodes that train locally.
#include "config/checks/validate.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/config/table.hpp"
#include "shoal/sync/schedule.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::config {

using sync::SyncKind;

namespace {

/// Ranks of a node according to the options: sync.nprocs_per_node, else comm.ranks_per_node; 0: those of the real node.
int ranks_in_step(const Options& o) { return o.sync.nprocs_per_node > 0 ? o.sync.nprocs_per_node : o.comm.ranks_per_node; }

/// Finds options of slowmo over sgp that only outer updates use, if there are none.
void find_idle_without_outer(const Options& o, std::vector<std::string>& problems) {
  for (const char* const name : {"sync.slowmo_frequency", "sync.average_dtype", "sync.slowmo_memory_efficient"}) {
    const Row& row = *find(name);
    const std::string value = value_text(row, o);
    if (value == default_text(row)) continue;
    problems.push_back(text(name, " = ", value,
                            " has no effect with sync.slowmo_base = sgp, sync.slowmo_momentum = 0 and sync.slowmo_lr = 1, "
                            "which make no outer updates; it needs another momentum or rate"));
  }
}

/// Finds options of the base algorithm of slowmo that was not chosen.
void find_idle(const Options& o, std::vector<std::string>& problems) {
  const sync::SyncOptions& sync = o.sync;
  const sync::SyncOptions unset;
  const bool pushing = sync::pushes(sync);
  const bool outer = sync::SyncSchedule(sync, 2).has_outer();  // on any number of nodes
  if (sync.kind == SyncKind::slowmo && pushing && sync.localsgd_frequency != unset.localsgd_frequency) {
    problems.push_back(text("sync.localsgd_frequency = ", sync.localsgd_frequency,
                            " has no effect with sync.slowmo_base = sgp; it needs sync.slowmo_base = localsgd"));
  }
  if (sync.kind == SyncKind::slowmo && !pushing && sync.sgp_overlap) {
    problems.emplace_back(
        "sync.sgp_overlap = true has no effect with sync.slowmo_base = localsgd; it needs sync.slowmo_base = sgp");
  }
  if (sync.kind == SyncKind::slowmo && pushing && !outer) find_idle_without_outer(o, problems);
  if (sync.kind == SyncKind::slowmo && pushing && outer && !sync.slowmo_memory_efficient &&
      sync.average_dtype != unset.average_dtype) {
    problems.push_back(text("sync.average_dtype = ", name_of(sync.average_dtype),
                            " has no effect with sync.slowmo_base = sgp and sync.slowmo_memory_efficient = false, which "
                            "never average over all nodes"));
  }
}

/// Finds options that cannot be combined with averages in the background.
void find_overlap_problems(const sync::SyncOptions& sync, std::vector<std::string>& problems) {
  if (sync.kind == SyncKind::sgp) return;  // it has no effect there, which is reported elsewhere
  const std::string refused = "sync.average_overlap = true cannot be combined with ";
  if (sync::pushes(sync)) {
    problems.push_back(refused +
                       "sync.slowmo_base = sgp: neighbours would exchange parameters while their average is still being "
                       "computed; allowed: localsgd, or sync.sgp_overlap");
    return;
  }
  if (sync.kind == SyncKind::slowmo && !sync.slowmo_memory_efficient) {
    problems.push_back(refused +
                       "sync.slowmo_memory_efficient = false: the one rank that computes an average in the background also "
                       "makes its outer update; allowed: true");
  }
  const bool rarely = sync.kind == SyncKind::diloco;
  const std::size_t period = rarely ? sync.slowmo_frequency : sync.localsgd_frequency;
  if (sync.average_delay > period) {
    problems.push_back(text("sync.average_delay = ", sync.average_delay, " is longer than ",
                            rarely ? "sync.slowmo_frequency (" : "sync.localsgd_frequency (", period,
                            "): an average must be applied before the next one is sent; allowed: 1 to ", period));
  }
}

}  // namespace

std::vector<std::string> sync_problems(const Options& o, int ranks) {
  const sync::SyncOptions& sync = o.sync;
  std::vector<std::string> problems;
  if (!sync::trains_locally(sync)) return problems;
  find_idle(o, problems);
  if (sync.average_overlap) find_overlap_problems(sync, problems);
  if (sync.nprocs_per_node > 0 && ranks % sync.nprocs_per_node != 0) {
    problems.push_back(text("sync.nprocs_per_node = ", sync.nprocs_per_node, " does not divide the number of ranks (", ranks,
                            "); allowed: a divisor of it, or auto (the ranks of a node)"));
  }
  if (sync.kind == SyncKind::slowmo && !sync::pushes(sync) && sync.slowmo_frequency % sync.localsgd_frequency != 0) {
    const std::size_t below = sync.slowmo_frequency / sync.localsgd_frequency * sync.localsgd_frequency;
    problems.push_back(text("sync.slowmo_frequency = ", sync.slowmo_frequency,
                            " is not a multiple of sync.localsgd_frequency (", sync.localsgd_frequency,
                            "); nearest: ", below == 0 ? "" : text(below, ", "), below + sync.localsgd_frequency));
  }
  if (sync::pushes(sync) && zero::stage_of(o.zero).shards_parameters && ranks > 1) {
    const std::string problem =
        sgp_stage3_problem(ranks_in_step(o), o.comm.ranks_per_node > 0 ? o.comm.ranks_per_node : ranks_in_step(o));
    if (!problem.empty()) problems.push_back(problem);
  }
  if (o.adascale.on) {
    problems.push_back(text("optimizer.adascale = true cannot be combined with sync.kind = ", name_of(sync.kind),
                            ": AdaScale needs the gradients of all ranks at every step; allowed: every_step"));
  }
  if (o.zero.hpz_size != 0) {
    problems.push_back(
        text("zero.hpz_size = ", value_text(*find("zero.hpz_size"), o),
             " cannot be combined with sync.kind = ", name_of(sync.kind),
             ": states are split within nodes, and parameters are never gathered between nodes; allowed: off"));
  }
  if (o.checkpoint.async) {
    problems.push_back(text("checkpoint.async = true cannot be combined with sync.kind = ", name_of(sync.kind),
                            ": all ranks would have to communicate at every step; allowed: false"));
  }
  return problems;
}

std::string sgp_stage3_problem(int sync_group_size, int on_node) {
  const std::string allowed = "; allowed: zero.stage = 0, 1, 2, or nodes of several ranks with sync.nprocs_per_node = auto";
  const std::string refused = "zero.stage = 3 cannot be combined with stochastic gradient push (sgp) if ";
  if (sync_group_size == 1) {
    return refused + "a rank is alone on its node: there is no other rank to split its parameters with" + allowed;
  }
  if (on_node > 0 && sync_group_size > on_node) {
    return text(refused, "parameters are split among ranks of several nodes: sync.nprocs_per_node = ", sync_group_size,
                ", but a node has ", counted(on_node, "rank"), allowed);
  }
  return {};
}

}  // namespace shoal::config
