// SPDX-License-Identifier: Apache-2.0
// A library for LD_PRELOAD that makes MPI as unforgiving as its standard allows. MPI libraries copy small messages at once,
// so a test on one machine cannot tell whether the program writes over a message that MPI may still have to read, or reads
// one that may not have arrived; on a real network such a program computes wrong numbers now and then. With this library
//   - a send is synchronous: it is not complete before a receive has matched it;
//   - data are received into memory of the library's own. The program's buffer holds garbage (NaN in each format) until the
//     program is told that the operation is complete, also if the operation is in place;
//   - the program is told so one or two tests later than MPI tells it;
//   - tags end at 32767, the smallest limit that the standard allows;
//   - a run in which a buffer changes meanwhile ends with a line on stderr that names the message.
// Each rank writes the number of its checked operations to stderr in MPI_Finalize. What the library cannot check ends the
// run, too: persistent requests, most kinds of derived datatypes, and the functions in the list at the end. It passes
// blocking functions on. MPI must be called by one thread at a time.
#include "mpi_checker.hpp"

#include <mpi.h>
#include <sched.h>

#include <numeric>
#include <string>
#include <utility>

using namespace checker;

namespace {

int largest_tag = 32767;

void check_tag(int tag) {
  if (tag > largest_tag) end_run("sends a message with tag " + std::to_string(tag));
}

}  // namespace

extern "C" {

int MPI_Comm_get_attr(MPI_Comm communicator, int key, void* value, int* is_set) {
  const int code = PMPI_Comm_get_attr(communicator, key, value, is_set);
  if (code == MPI_SUCCESS && key == MPI_TAG_UB) *static_cast<int**>(value) = &largest_tag;
  return code;
}

int MPI_Testall(int count, MPI_Request handles[], int* flag, MPI_Status statuses[]) {
  *flag = 1;
  for (int i = 0; i < count; ++i) {
    int ready = 0;
    if (const int code = test(handles[i], &ready); code != MPI_SUCCESS) return code;
    *flag = *flag != 0 && ready != 0 ? 1 : 0;
  }
  for (int i = 0; i < count && *flag != 0; ++i) {
    MPI_Status* const status = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
    if (in_flight.contains(handles[i])) {
      finish(&handles[i], status);
    } else if (const int code = PMPI_Wait(&handles[i], status); code != MPI_SUCCESS) {
      return code;
    }
  }
  return MPI_SUCCESS;
}

int MPI_Test(MPI_Request* handle, int* flag, MPI_Status* status) {
  return MPI_Testall(1, handle, flag, status == MPI_STATUS_IGNORE ? MPI_STATUSES_IGNORE : status);
}

int MPI_Waitall(int count, MPI_Request handles[], MPI_Status statuses[]) {
  int complete = 0, code = MPI_SUCCESS;
  while ((code = MPI_Testall(count, handles, &complete, statuses)) == MPI_SUCCESS && complete == 0) sched_yield();
  return code;
}

int MPI_Wait(MPI_Request* handle, MPI_Status* status) {
  return MPI_Waitall(1, handle, status == MPI_STATUS_IGNORE ? MPI_STATUSES_IGNORE : status);
}

int MPI_Send(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm communicator) {
  check_tag(tag);
  return PMPI_Ssend(data, count, type, to, tag, communicator);
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm communicator, MPI_Request* handle) {
  check_tag(tag);
  Operation operation{.peer = to, .tag = tag, .communicator = communicator};
  add_blocks(operation.inputs, data, 0, count, type);
  return begin(std::move(operation), nullptr, handle,
               [&](void*, MPI_Request* request) { return PMPI_Issend(data, count, type, to, tag, communicator, request); });
}

int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm communicator, MPI_Request* handle) {
  Operation operation{.peer = from, .tag = tag, .communicator = communicator};
  add_blocks(operation.outputs, data, 0, count, type);
  return begin(std::move(operation), data, handle, [&](void* into, MPI_Request* request) {
    return PMPI_Irecv(into, count, type, from, tag, communicator, request);
  });
}

int MPI_Ibarrier(MPI_Comm communicator, MPI_Request* handle) {
  return begin({.name = "an MPI_Ibarrier"}, nullptr, handle,
               [&](void*, MPI_Request* request) { return PMPI_Ibarrier(communicator, request); });
}

int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm communicator, MPI_Request* handle) {
  Operation operation{.name = "an MPI_Ibcast"};
  add_blocks(rank_in(communicator) == root ? operation.inputs : operation.outputs, data, 0, count, type);
  return begin(std::move(operation), data, handle,
               [&](void* at, MPI_Request* request) { return PMPI_Ibcast(at, count, type, root, communicator, request); });
}

int MPI_Iallreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op how, MPI_Comm communicator,
                   MPI_Request* handle) {
  Operation operation{.name = "an MPI_Iallreduce"};
  if (from != MPI_IN_PLACE) add_blocks(operation.inputs, from, 0, count, type);
  add_blocks(operation.outputs, to, 0, count, type);
  return begin(std::move(operation), to, handle, [&](void* into, MPI_Request* request) {
    return PMPI_Iallreduce(from, into, count, type, how, communicator, request);
  });
}

int MPI_Ireduce_scatter(const void* from, void* to, const int counts[], MPI_Datatype type, MPI_Op how, MPI_Comm communicator,
                        MPI_Request* handle) {
  if (from == MPI_IN_PLACE) refuse("MPI_Ireduce_scatter in place");
  Operation operation{.name = "an MPI_Ireduce_scatter"};
  add_blocks(operation.inputs, from, 0, std::accumulate(counts, counts + size_of(communicator), 0), type);
  add_blocks(operation.outputs, to, 0, counts[rank_in(communicator)], type);
  return begin(std::move(operation), to, handle, [&](void* into, MPI_Request* request) {
    return PMPI_Ireduce_scatter(from, into, counts, type, how, communicator, request);
  });
}

int MPI_Iallgather(const void* from, int count, MPI_Datatype type, void* to, int each, MPI_Datatype others,
                   MPI_Comm communicator, MPI_Request* handle) {
  Operation operation{.name = "an MPI_Iallgather"};
  if (from != MPI_IN_PLACE) add_blocks(operation.inputs, from, 0, count, type);
  add_blocks(operation.outputs, to, 0, size_of(communicator) * each, others);
  return begin(std::move(operation), to, handle, [&](void* into, MPI_Request* request) {
    return PMPI_Iallgather(from, count, type, into, each, others, communicator, request);
  });
}

int MPI_Iallgatherv(const void* from, int count, MPI_Datatype type, void* to, const int counts[], const int begins[],
                    MPI_Datatype others, MPI_Comm communicator, MPI_Request* handle) {
  Operation operation{.name = "an MPI_Iallgatherv"};
  if (from != MPI_IN_PLACE) add_blocks(operation.inputs, from, 0, count, type);
  for (int r = 0; r < size_of(communicator); ++r) add_blocks(operation.outputs, to, begins[r], counts[r], others);
  return begin(std::move(operation), to, handle, [&](void* into, MPI_Request* request) {
    return PMPI_Iallgatherv(from, count, type, into, counts, begins, others, communicator, request);
  });
}

int MPI_Finalize() {
  if (!in_flight.empty()) end_run("ends with " + std::to_string(in_flight.size()) + " operations in flight");
  std::fprintf(stderr, "mpi_checker: rank %d: %u messages, %u collectives\n", rank_in(MPI_COMM_WORLD), messages,
               collectives);
  return PMPI_Finalize();
}

// Functions that would start an operation unchecked, or do not know the handles of the checked ones.
#define REFUSED(function, ...) \
  int function(__VA_ARGS__) { refuse(#function); }
REFUSED(MPI_Waitany, int, MPI_Request[], int*, MPI_Status*)
REFUSED(MPI_Waitsome, int, MPI_Request[], int*, int[], MPI_Status[])
REFUSED(MPI_Testany, int, MPI_Request[], int*, int*, MPI_Status*)
REFUSED(MPI_Testsome, int, MPI_Request[], int*, int[], MPI_Status[])
REFUSED(MPI_Request_get_status, MPI_Request, int*, MPI_Status*)
REFUSED(MPI_Request_free, MPI_Request*)
REFUSED(MPI_Cancel, MPI_Request*)
REFUSED(MPI_Ibsend, const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*)
REFUSED(MPI_Irsend, const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*)
REFUSED(MPI_Issend, const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*)
REFUSED(MPI_Imrecv, void*, int, MPI_Datatype, MPI_Message*, MPI_Request*)
REFUSED(MPI_Send_init, const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*)
REFUSED(MPI_Recv_init, void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*)
REFUSED(MPI_Igather, const void*, int, MPI_Datatype, void*, int, MPI_Datatype, int, MPI_Comm, MPI_Request*)
REFUSED(MPI_Iscatter, const void*, int, MPI_Datatype, void*, int, MPI_Datatype, int, MPI_Comm, MPI_Request*)
REFUSED(MPI_Ialltoall, const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm, MPI_Request*)
REFUSED(MPI_Ireduce, const void*, void*, int, MPI_Datatype, MPI_Op, int, MPI_Comm, MPI_Request*)
REFUSED(MPI_Ireduce_scatter_block, const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request*)
}
