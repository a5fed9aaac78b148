// SPDX-License-Identifier: Apache-2.0
// A library for LD_PRELOAD that records what a run hands to MPI. It defines the MPI functions that send, records each call,
// and passes it on to the MPI library by its profiling name (PMPI_...). It uses none of the program's formulas, so that
// tests can compare these with what it recorded. The program marks the steps by MPI_Pcontrol
// (shoal/comm/profiled_region.hpp).
//
// Each rank writes $SHOAL_MPI_COUNT/rank_R.txt in MPI_Finalize. Its lines:
//   group G RANK...                     the ranks of a communicator, as ranks of MPI_COMM_WORLD
//   send REGION BEGUN G RANK TAG BYTES  one message
//   collective REGION G NAME BYTES      bytes that this rank hands to a collective of the MPI library; in a reduce-scatter
//                                       those for other ranks
// REGION: s in step s, -s between step s and the next, 0 before the first step. BEGUN: the region in which this rank posted
// its first message with this tag, to send or to receive it. Each operation of several messages has its own tag, and may
// still send after the step in which it began.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int first_composite_tag = 1 << 14;  // lower tags belong to many messages

long steps = 0;
bool inside_step = false;
std::map<MPI_Comm, int> groups;
std::map<std::pair<int, int>, long> begun;
std::vector<std::vector<int>> members;  // by group: the ranks in MPI_COMM_WORLD
std::string lines;

long region() { return inside_step ? steps : -steps; }

template <typename... Fields>
void line(const char* format, Fields... fields) {
  char text[160];
  std::snprintf(text, sizeof text, format, fields...);
  lines += text;
}

int group_of(MPI_Comm communicator) {
  const auto [found, is_new] = groups.try_emplace(communicator, static_cast<int>(members.size()));
  if (!is_new) return found->second;
  MPI_Group group = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
  int size = 0;
  PMPI_Comm_group(communicator, &group);
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  PMPI_Group_size(group, &size);
  std::vector<int> own(static_cast<std::size_t>(size)), of_world(own.size());
  std::iota(own.begin(), own.end(), 0);
  PMPI_Group_translate_ranks(group, size, own.data(), world, of_world.data());
  PMPI_Group_free(&group);
  PMPI_Group_free(&world);
  line("group %d", found->second);
  for (const int rank : of_world) line(" %d", rank);
  lines += '\n';
  members.push_back(std::move(of_world));
  return found->second;
}

long long bytes_of(int count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  return static_cast<long long>(count) * size;
}

/// Returns the region in which the operation with this tag began.
long posted(MPI_Comm communicator, int tag) {
  if (tag < first_composite_tag) return region();
  return begun.try_emplace({group_of(communicator), tag}, region()).first->second;
}

void sent(int count, MPI_Datatype type, int to, int tag, MPI_Comm communicator) {
  const int group = group_of(communicator);
  line("send %ld %ld %d %d %d %lld\n", region(), posted(communicator, tag), group,
       members[static_cast<std::size_t>(group)][static_cast<std::size_t>(to)], tag, bytes_of(count, type));
}

void handed_over(const char* name, long long bytes, MPI_Comm communicator) {
  line("collective %ld %d %s %lld\n", region(), group_of(communicator), name, bytes);
}

int rank_in(MPI_Comm communicator) {
  int rank = 0;
  PMPI_Comm_rank(communicator, &rank);
  return rank;
}

int size_of(MPI_Comm communicator) {
  int size = 0;
  PMPI_Comm_size(communicator, &size);
  return size;
}

/// Returns the bytes that this rank contributes; its part may be in place.
long long own_part(const void* from, int count, MPI_Datatype type, const int* counts, MPI_Datatype others,
                   MPI_Comm communicator) {
  return from == MPI_IN_PLACE ? bytes_of(counts[rank_in(communicator)], others) : bytes_of(count, type);
}

}  // namespace

extern "C" {

int MPI_Pcontrol(const int level, ...) {
  inside_step = level > 0;
  if (inside_step) ++steps;
  return MPI_SUCCESS;
}

int MPI_Comm_free(MPI_Comm* communicator) {  // a later communicator may get the same handle
  groups.erase(*communicator);
  return PMPI_Comm_free(communicator);
}

int MPI_Send(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm communicator) {
  sent(count, type, to, tag, communicator);
  return PMPI_Send(data, count, type, to, tag, communicator);
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm communicator, MPI_Request* request) {
  sent(count, type, to, tag, communicator);
  return PMPI_Isend(data, count, type, to, tag, communicator, request);
}

int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm communicator, MPI_Request* request) {
  posted(communicator, tag);
  return PMPI_Irecv(data, count, type, from, tag, communicator, request);
}

int MPI_Barrier(MPI_Comm communicator) {
  handed_over("barrier", 0, communicator);
  return PMPI_Barrier(communicator);
}

int MPI_Ibarrier(MPI_Comm communicator, MPI_Request* request) {
  handed_over("barrier", 0, communicator);
  return PMPI_Ibarrier(communicator, request);
}

int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm communicator) {
  handed_over("broadcast", rank_in(communicator) == root ? bytes_of(count, type) : 0, communicator);
  return PMPI_Bcast(data, count, type, root, communicator);
}

int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm communicator, MPI_Request* request) {
  handed_over("broadcast", rank_in(communicator) == root ? bytes_of(count, type) : 0, communicator);
  return PMPI_Ibcast(data, count, type, root, communicator, request);
}

int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op how, MPI_Comm communicator) {
  handed_over("all_reduce", bytes_of(count, type), communicator);
  return PMPI_Allreduce(from, to, count, type, how, communicator);
}

int MPI_Iallreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op how, MPI_Comm communicator,
                   MPI_Request* request) {
  handed_over("all_reduce", bytes_of(count, type), communicator);
  return PMPI_Iallreduce(from, to, count, type, how, communicator, request);
}

int MPI_Ireduce_scatter(const void* from, void* to, const int counts[], MPI_Datatype type, MPI_Op how, MPI_Comm communicator,
                        MPI_Request* request) {
  const int others = std::accumulate(counts, counts + size_of(communicator), -counts[rank_in(communicator)]);
  handed_over("reduce_scatter", bytes_of(others, type), communicator);
  return PMPI_Ireduce_scatter(from, to, counts, type, how, communicator, request);
}

int MPI_Allgather(const void* from, int count, MPI_Datatype type, void* to, int each, MPI_Datatype others,
                  MPI_Comm communicator) {
  handed_over("all_gather", bytes_of(each, others), communicator);
  return PMPI_Allgather(from, count, type, to, each, others, communicator);
}

int MPI_Iallgather(const void* from, int count, MPI_Datatype type, void* to, int each, MPI_Datatype others,
                   MPI_Comm communicator, MPI_Request* request) {
  handed_over("all_gather", bytes_of(each, others), communicator);
  return PMPI_Iallgather(from, count, type, to, each, others, communicator, request);
}

int MPI_Allgatherv(const void* from, int count, MPI_Datatype type, void* to, const int counts[], const int begins[],
                   MPI_Datatype others, MPI_Comm communicator) {
  handed_over("all_gather", own_part(from, count, type, counts, others, communicator), communicator);
  return PMPI_Allgatherv(from, count, type, to, counts, begins, others, communicator);
}

int MPI_Iallgatherv(const void* from, int count, MPI_Datatype type, void* to, const int counts[], const int begins[],
                    MPI_Datatype others, MPI_Comm communicator, MPI_Request* request) {
  handed_over("all_gather", own_part(from, count, type, counts, others, communicator), communicator);
  return PMPI_Iallgatherv(from, count, type, to, counts, begins, others, communicator, request);
}

int MPI_Finalize() {
  const char* const directory = std::getenv("SHOAL_MPI_COUNT");
  if (directory != nullptr) {
    const std::string path = std::string(directory) + "/rank_" + std::to_string(rank_in(MPI_COMM_WORLD)) + ".txt";
    std::FILE* const file = std::fopen(path.c_str(), "w");
    if (file == nullptr || std::fwrite(lines.data(), 1, lines.size(), file) != lines.size() || std::fclose(file) != 0) {
      std::fprintf(stderr, "mpi_counter: %s cannot be written\n", path.c_str());
      std::abort();
    }
  }
  return PMPI_Finalize();
}
}
