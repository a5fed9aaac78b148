// SPDX-License-Identifier: Apache-2.0
#include "comm/world/groups.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>

#include "comm/operations/duplicate.hpp"
#include "comm/operations/mpi_error.hpp"
#include "comm/operations/traced.hpp"
#include "comm/world/mpi_communicator.hpp"
#include "comm/world/shared_memory.hpp"
#include "shoal/base/error.hpp"
#include "shoal/comm/gpu_aware.hpp"
#include "shoal/comm/wait.hpp"

namespace shoal::comm {

namespace {

/// A communicator that the destructor frees.
class Scoped {
 public:
  Scoped() = default;
  ~Scoped() {
    if (communicator_ != MPI_COMM_NULL) MPI_Comm_free(&communicator_);
  }
  Scoped(const Scoped&) = delete;
  Scoped& operator=(const Scoped&) = delete;
  MPI_Comm* address() { return &communicator_; }
  const MPI_Comm& get() const { return communicator_; }

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
};

int rank_in(MPI_Comm communicator) {
  int rank = 0;
  check(MPI_Comm_rank(communicator, &rank), "MPI_Comm_rank");
  return rank;
}

int size_of(MPI_Comm communicator) {
  int size = 0;
  check(MPI_Comm_size(communicator, &size), "MPI_Comm_size");
  return size;
}

/// Collective. Returns every rank's value, by rank.
template <typename T>
std::vector<T> gather(MPI_Comm communicator, const T& mine) {
  std::vector<T> all(static_cast<std::size_t>(size_of(communicator)));
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, communicator, &request),
        "MPI_Iallgather");
  finish(request);
  return all;
}

using Host = std::array<char, MPI_MAX_PROCESSOR_NAME>;

/// Receives the remaining messages: some transports print a warning about each message that nobody received. Errors are
/// ignored.
void drain(MPI_Comm communicator) {
  int there = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  while (MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator, &there, &message, &status) == MPI_SUCCESS && there != 0) {
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    std::vector<std::byte> ignored(static_cast<std::size_t>(bytes));
    MPI_Mrecv(ignored.data(), bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
  }
}

Host host_name() {
  Host name{};
  int length = 0;
  check(MPI_Get_processor_name(name.data(), &length), "MPI_Get_processor_name");
  return name;
}

}  // namespace

std::string backend_problem(const CommOptions& options) {
  if (options.backend != Backend::nccl || has_nccl()) return {};
  return text("comm.backend = ", name_of(options.backend), ": this program was built without NCCL; allowed: auto, mpi");
}

Groups::Groups(const CommOptions& options, const Axes& grid) : axes(grid) {
  check_agreement(options);
  const std::string problem = backend_problem(options);
  require_input(problem.empty(), problem);
  const int ranks = size_of(MPI_COMM_WORLD);
  require_input(axes.tensor > 0 && axes.pipeline > 0 && ranks % axes.model() == 0, axes.tensor, " tensor x ", axes.pipeline,
                " pipeline ranks do not divide the number of ranks (", ranks, ")");
  assign_nodes(options);
  inquiry = duplicate(ordered);

  if (sends_by_nccl(options)) nccl = make_nccl_groups(ordered, options);
  kinds = group_kinds(topology);
  all = make(kinds[0], 0);
  node = make(kinds[1], 1);
  across = make(kinds[2], 2);
  if (axes.model() == 1) return;
  for (GroupKind& kind : axis_kinds(topology, axes)) {
    by_axis.push_back(make(kind, static_cast<std::int16_t>(kinds.size())));
    kinds.push_back(std::move(kind));
  }
}

/// Collective over all ranks. Makes the group of this kind that this rank is in. index: the kind's index in the trace.
std::unique_ptr<Communicator> Groups::make(const GroupKind& kind, std::int16_t index) const {
  const int rank = rank_in(ordered), part = kind.part_of[static_cast<std::size_t>(rank)];
  std::vector<bool> same_node;
  std::vector<int> nodes;
  for (int other = 0; other < topology.ranks(); ++other) {
    const auto at = static_cast<std::size_t>(other);
    if (kind.part_of[at] != part) continue;
    nodes.push_back(topology.node_of[at]);
    same_node.push_back(nodes.back() == topology.node_of[static_cast<std::size_t>(rank)]);
  }
  // Splitting spins (duplicate.hpp). It is not needed where each group has all ranks, or one.
  const std::set<int> parts(kind.part_of.begin(), kind.part_of.end());
  Scoped members;
  MPI_Comm original = ordered;
  if (parts.size() == kind.part_of.size()) {
    original = MPI_COMM_SELF;
  } else if (parts.size() > 1) {
    check(MPI_Comm_split(ordered, part, rank, members.address()), "MPI_Comm_split");
    original = members.get();
  }
  std::unique_ptr<Communicator> group = make_mpi_communicator(&original, kind.name, std::move(same_node));
  if (nccl != nullptr) group = nccl->over(std::move(group), kind.part_of, queued_ranks_per_node(nodes));
  return std::make_unique<Traced>(std::move(group), index);
}

Communicator& Groups::consecutive(int count) {
  return divided_group("neighbours", count, [=](int rank) { return rank / count; });
}

Communicator& Groups::same_position(int count) {
  return divided_group("alike", count, [=](int rank) { return rank % count; });
}

Communicator& Groups::along(Along axis) {
  if (!by_axis.empty()) return *by_axis[static_cast<std::size_t>(axis)];
  switch (axis) {
    case Along::data: return *all;
    case Along::data_node: return *node;
    case Along::data_across: return *across;
    default: return consecutive(1);
  }
}

Communicator& Groups::divided_group(const char* name, int count, const std::function<int(int)>& part_of) {
  const int ranks = topology.ranks();
  require(count > 0 && ranks % count == 0, "groups of ", count, " among ", ranks, " ranks");
  GroupKind kind{name, {}};
  for (int rank = 0; rank < ranks; ++rank) kind.part_of.push_back(part_of(rank));
  const auto same = [&](const GroupKind& made) { return made.name == kind.name && made.part_of == kind.part_of; };
  const auto found = std::find_if(kinds.begin(), kinds.end(), same);
  const auto index = static_cast<std::size_t>(found - kinds.begin());
  if (found == kinds.end()) {
    kinds.push_back(kind);
    on_demand.push_back(make(kind, static_cast<std::int16_t>(index)));
  }
  return *on_demand[index - (kinds.size() - on_demand.size())];
}

std::string ranks_per_node_problem(const CommOptions& options, int ranks) {
  const int per_node = options.ranks_per_node;
  if (per_node == 0 || (per_node > 0 && ranks % per_node == 0)) return {};
  return text("comm.ranks_per_node = ", per_node, " does not divide the number of ranks (", ranks,
              "); allowed: a divisor of it, or auto");
}

Groups::~Groups() {
  all.reset();
  node.reset();
  across.reset();
  by_axis.clear();
  on_demand.clear();
  nccl.reset();
  if (inquiry != MPI_COMM_NULL) {
    drain(inquiry);  // the last answers to ranks that no longer wait
    MPI_Comm_free(&inquiry);
  }
  if (ordered != MPI_COMM_NULL) MPI_Comm_free(&ordered);
}

/// Numbers the ranks node by node (nodes by their first rank, ranks of a node as the launcher numbers them), and finds the
/// node of each rank. comm.ranks_per_node takes precedence over the real nodes. MPI_Comm_split_type(SHARED) would find the
/// nodes, too, but it spins (duplicate.hpp): with 64 ranks on 2 cores it took 40 % of the processor time of a step and its
/// start.
void Groups::assign_nodes(const CommOptions& options) {
  const int launched = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
  const Host host = host_name();
  std::map<SharedMemory, int> first_with;
  std::vector<int> first;  // by the launcher's rank: the first rank on its node
  for (const SharedMemory& memory : gather(MPI_COMM_WORLD, shared_memory(host.data())))
    first.push_back(first_with.try_emplace(memory, static_cast<int>(first.size())).first->second);
  const int first_on_node = first[static_cast<std::size_t>(launched)];
  if (std::is_sorted(first.begin(), first.end())) {  // the launcher's order is node by node
    ordered = duplicate(MPI_COMM_WORLD);
  } else {
    int position = 0;  // by (first rank on the node, rank)
    for (int r = 0; r < size; ++r) {
      const int other = first[static_cast<std::size_t>(r)];
      position += other < first_on_node || (other == first_on_node && r < launched) ? 1 : 0;
    }
    check(MPI_Comm_split(MPI_COMM_WORLD, 0, position, &ordered), "MPI_Comm_split");
  }

  const int per_node = options.ranks_per_node;
  const std::string problem = ranks_per_node_problem(options, size);
  require_input(problem.empty(), problem);
  std::sort(first.begin(), first.end());  // now in the order of `ordered`
  for (int r = 0, index = -1; r < size; ++r) {
    const auto at = static_cast<std::size_t>(r);
    if (r == 0 || first[at] != first[at - 1]) ++index;
    topology.node_of.push_back(per_node > 0 ? r / per_node : index);
  }
  for (const Host& other : gather(ordered, host)) topology.hosts.emplace_back(other.data());

  // Those of this machine, whatever comm.ranks_per_node says.
  const std::vector<CoreMask> masks = gather(ordered, usable_cores());
  const auto [begin, end] = std::equal_range(first.begin(), first.end(), first_on_node);
  const auto mine = static_cast<std::size_t>(rank_in(ordered) - (begin - first.begin()));
  const Span<const CoreMask> neighbours(masks.data() + (begin - first.begin()), static_cast<std::size_t>(end - begin));
  set_wait(choose_wait(options.wait, core_share(neighbours, mine)));
}

/// bad_input() unless all ranks have the same options. Otherwise they would make different groups and wait for ever.
void Groups::check_agreement(const CommOptions& options) const {
  const std::string words =
      text(name_of(options.backend), ' ', name_of(options.collectives), ' ', options.bucket_mb, ' ', options.overlap, ' ',
           options.gather_group, ' ', options.ranks_per_node, ' ', axes.tensor, ' ', axes.pipeline);
  const std::vector<std::size_t> hashes = gather(MPI_COMM_WORLD, std::hash<std::string>()(words));
  const auto differs = std::find_if(hashes.begin(), hashes.end(), [&](std::size_t hash) { return hash != hashes.front(); });
  require_input(
      differs == hashes.end(), "rank ", differs - hashes.begin(),
      " was given other comm options than rank 0; all ranks need the same (backend, collectives, bucket_mb, overlap, "
      "gather_group, ranks_per_node) and the same axes");
}

}  // namespace shoal::comm
