// SPDX-License-Identifier: Apache-2.0
#include "groups.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include "mpi_error.hpp"
#include "shoal/base/error.hpp"
#include "shoal/comm/mpi_communicator.hpp"
#include "shoal/comm/traced.hpp"
#include "shoal/comm/wait.hpp"

namespace shoal::comm {

namespace {

/// A communicator that is freed with its scope.
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

/// Every rank's value, by rank.
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

Host host_name() {
  Host name{};
  int length = 0;
  check(MPI_Get_processor_name(name.data(), &length), "MPI_Get_processor_name");
  return name;
}

std::unique_ptr<Communicator> traced_group(const MPI_Comm& communicator, const char* name, std::vector<bool> same_node,
                                           std::int16_t index) {
  return std::make_unique<Traced>(make_mpi_communicator(&communicator, name, std::move(same_node)), index);
}

}  // namespace

Groups::Groups(const CommOptions& options) {
  check_agreement(options);
  place(options);
  check(MPI_Comm_dup(ordered, &inquiry), "MPI_Comm_dup");
  check(MPI_Comm_set_errhandler(inquiry, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");

  const int rank = rank_in(ordered);
  const int mine = node_of[static_cast<std::size_t>(rank)];
  const auto first = std::find(node_of.begin(), node_of.end(), mine) - node_of.begin();
  const int local = rank - static_cast<int>(first);

  std::vector<bool> mates;
  for (const int other : node_of) mates.push_back(other == mine);
  const auto on_this_node = static_cast<std::size_t>(std::count(mates.begin(), mates.end(), true));
  all = traced_group(ordered, "all", std::move(mates), 0);

  Scoped of_node, of_column;
  check(MPI_Comm_split(ordered, mine, rank, of_node.address()), "MPI_Comm_split");
  node = traced_group(of_node.get(), "node", std::vector<bool>(on_this_node, true), 1);

  check(MPI_Comm_split(ordered, local, rank, of_column.address()), "MPI_Comm_split");
  std::vector<bool> only_me(static_cast<std::size_t>(size_of(of_column.get())), false);
  only_me[static_cast<std::size_t>(rank_in(of_column.get()))] = true;
  across = traced_group(of_column.get(), "across", std::move(only_me), 2);
}

void Groups::divide(int ranks_in_step) {
  const int rank = all->rank();
  const auto mates_of = [&](const auto& member) {
    std::vector<bool> mates;
    for (int r = 0; r < all->size(); ++r) {
      if (member(r)) mates.push_back(all->same_node(r));
    }
    return mates;
  };
  Scoped neighbours, column;
  check(MPI_Comm_split(ordered, rank / ranks_in_step, rank, neighbours.address()), "MPI_Comm_split");
  in_step = traced_group(neighbours.get(), "in_step",
                         mates_of([&](int r) { return r / ranks_in_step == rank / ranks_in_step; }), 3);
  check(MPI_Comm_split(ordered, rank % ranks_in_step, rank, column.address()), "MPI_Comm_split");
  between =
      traced_group(column.get(), "between", mates_of([&](int r) { return r % ranks_in_step == rank % ranks_in_step; }), 4);
}

std::string ranks_per_node_problem(const CommOptions& options, int ranks) {
  const int per_node = options.ranks_per_node;
  if (per_node == 0 || (per_node > 0 && ranks % per_node == 0)) return {};
  return text("comm.ranks_per_node = ", per_node, " does not divide the ", ranks,
              " ranks; allowed: a divisor, or 0 for what the machine says");
}

Groups::~Groups() {
  all.reset();
  node.reset();
  across.reset();
  in_step.reset();
  between.reset();
  if (inquiry != MPI_COMM_NULL) MPI_Comm_free(&inquiry);
  if (ordered != MPI_COMM_NULL) MPI_Comm_free(&ordered);
}

/// Numbers the ranks node by node (nodes by the first rank on them, ranks of a node as the launcher has them) and says which
/// node each is on; there comm.ranks_per_node goes before what the machine says.
void Groups::place(const CommOptions& options) {
  Scoped machine;
  const int launched = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, launched, MPI_INFO_NULL, machine.address()),
        "MPI_Comm_split_type");
  check(MPI_Comm_set_errhandler(machine.get(), MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");

  const int first_on_node = gather(machine.get(), launched).front();
  const std::vector<int> first = gather(MPI_COMM_WORLD, first_on_node);
  int position = 0;  // in the order of (first rank on the node, rank)
  for (int r = 0; r < size; ++r) {
    const int other = first[static_cast<std::size_t>(r)];
    position += other < first_on_node || (other == first_on_node && r < launched) ? 1 : 0;
  }
  check(MPI_Comm_split(MPI_COMM_WORLD, 0, position, &ordered), "MPI_Comm_split");

  const int per_node = options.ranks_per_node;
  const std::string problem = ranks_per_node_problem(options, size);
  require_input(problem.empty(), problem);
  const std::vector<int> first_in_order = gather(ordered, first_on_node);
  for (int r = 0, index = -1; r < size; ++r) {
    const auto at = static_cast<std::size_t>(r);
    if (r == 0 || first_in_order[at] != first_in_order[at - 1]) ++index;
    node_of.push_back(per_node > 0 ? r / per_node : index);
  }
  for (const Host& host : gather(ordered, host_name())) hosts.emplace_back(host.data());

  const std::vector<CoreMask> masks = gather(machine.get(), usable_cores());
  set_wait(choose_wait(options.wait, core_share(masks, static_cast<std::size_t>(rank_in(machine.get())))));
}

/// All ranks must have been given the same options, or they would make other groups and wait for each other for ever.
void Groups::check_agreement(const CommOptions& options) const {
  const std::string words = text(options.backend, ' ', options.collectives, ' ', options.bucket_mb, ' ', options.overlap,
                                 ' ', options.ranks_per_node);
  const std::vector<std::size_t> hashes = gather(MPI_COMM_WORLD, std::hash<std::string>()(words));
  const auto differs = std::find_if(hashes.begin(), hashes.end(), [&](std::size_t hash) { return hash != hashes.front(); });
  require_input(
      differs == hashes.end(), "rank ", differs - hashes.begin(),
      " was given other comm options than rank 0; all ranks need the same (backend, collectives, bucket_mb, overlap, "
      "ranks_per_node)");
}

}  // namespace shoal::comm
