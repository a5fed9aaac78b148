// SPDX-License-Identifier: Apache-2.0
// The operations that the program has begun and not yet seen complete, for tests/support/mpi_checker.cpp.
#pragma once

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace checker {

inline constexpr std::byte garbage{0xFF};

struct Block {
  std::byte* at;
  std::size_t bytes;
};
using Blocks = std::vector<Block>;

struct Operation {
  MPI_Request request = MPI_REQUEST_NULL;
  std::string name = {};  // of a collective; empty: a message
  int peer = MPI_PROC_NULL, tag = 0;
  MPI_Comm communicator = MPI_COMM_NULL;
  Blocks inputs = {}, outputs = {};     // memory of the program
  std::byte* base = nullptr;            // outputs are placed relative to this
  std::vector<std::byte> sent = {};     // the inputs, one after the other, when the operation began
  std::vector<std::byte> arrived = {};  // laid out as the outputs; MPI writes here
  bool complete = false;                // says MPI; the test that finds it says that it is not
  int tests_left = 0;                   // so many more tests say that it is not
  MPI_Status status = {};
};

/// By the handle that the program has. It is that of a generalized request, since MPI may have one handle for many
/// operations that are complete from the beginning.
inline std::map<MPI_Request, Operation> in_flight;
inline std::uint32_t messages = 0, collectives = 0;

inline int rank_in(MPI_Comm communicator) {
  int rank = 0;
  PMPI_Comm_rank(communicator, &rank);
  return rank;
}

inline int size_of(MPI_Comm communicator) {
  int size = 0;
  PMPI_Comm_size(communicator, &size);
  return size;
}

[[noreturn]] inline void end_run(const std::string& why) {
  std::fprintf(stderr, "mpi_checker: rank %d %s\n", rank_in(MPI_COMM_WORLD), why.c_str());
  std::fflush(stderr);
  sleep(1);  // the launcher may drop what it has not passed on before the end
  PMPI_Abort(MPI_COMM_WORLD, 3);
  std::abort();
}

[[noreturn]] inline void refuse(const char* what) {
  end_run(std::string("uses ") + what + ", which the library cannot check");
}

/// Only elements without gaps inside; there may be gaps between them.
inline void add_blocks(Blocks& blocks, const void* data, MPI_Aint first, int count, MPI_Datatype type) {
  int size = 0;
  MPI_Aint begin = 0, true_begin = 0, extent = 0, true_extent = 0;
  PMPI_Type_size(type, &size);
  PMPI_Type_get_extent(type, &begin, &extent);
  PMPI_Type_get_true_extent(type, &true_begin, &true_extent);
  if (begin != 0 || true_begin != 0 || true_extent != size || extent < size) refuse("a datatype with gaps");
  if (size == 0 || count == 0) return;
  auto* at = static_cast<std::byte*>(const_cast<void*>(data)) + first * extent;
  const bool joined = extent == size;
  for (int i = 0; i < (joined ? 1 : count); ++i, at += extent) {
    blocks.push_back({at, static_cast<std::size_t>(size) * static_cast<std::size_t>(joined ? count : 1)});
  }
}

/// Starts the operation by start(address for MPI's data, request). to: where the program wants the data.
template <typename Start>
int begin(Operation operation, void* to, MPI_Request* handle, const Start& start) {
  for (const Block& block : operation.inputs) operation.sent.insert(operation.sent.end(), block.at, block.at + block.bytes);
  operation.base = static_cast<std::byte*>(to);
  for (const Block& block : operation.outputs) {
    const std::size_t end = static_cast<std::size_t>(block.at - operation.base) + block.bytes;
    operation.arrived.resize(std::max(operation.arrived.size(), end));
    // It is the input of an operation in place, and stays if fewer data arrive.
    std::memcpy(&operation.arrived[end - block.bytes], block.at, block.bytes);
  }
  for (const Block& block : operation.outputs) std::fill_n(block.at, block.bytes, garbage);
  void* const into = operation.arrived.empty() ? to : operation.arrived.data();
  if (const int code = start(into, &operation.request); code != MPI_SUCCESS) return code;
  const std::uint32_t number = operation.name.empty() ? ++messages : ++collectives;
  operation.tests_left = static_cast<int>(number * 0x9E3779B9U >> 31U);  // 0 or 1 without order
  PMPI_Grequest_start([](void*, MPI_Status*) { return MPI_SUCCESS; }, [](void*) { return MPI_SUCCESS; },
                      [](void*, int) { return MPI_SUCCESS; }, nullptr, handle);
  in_flight.emplace(*handle, std::move(operation));
  return MPI_SUCCESS;
}

[[noreturn]] inline void report(const Operation& operation, const char* direction, std::size_t bytes) {
  std::string what = operation.name;
  if (operation.name.empty()) {
    MPI_Group group = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
    int rank = 0;
    PMPI_Comm_group(operation.communicator, &group);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    const int peer = operation.peer == MPI_ANY_SOURCE ? operation.status.MPI_SOURCE : operation.peer;
    PMPI_Group_translate_ranks(group, 1, &peer, world, &rank);
    what = "a message " + (direction + (" rank " + std::to_string(rank))) + " (tag " + std::to_string(operation.tag) + ")";
  }
  end_run("changed " + std::to_string(bytes) + " bytes of " + what + " while it was in flight");
}

/// Delivers the data, and frees the handle.
inline void finish(MPI_Request* handle, MPI_Status* status) {
  const auto found = in_flight.find(*handle);
  const Operation operation = std::move(found->second);
  in_flight.erase(found);
  std::size_t changed = 0, at = 0;
  for (const Block& block : operation.inputs) {
    for (std::size_t i = 0; i < block.bytes; ++i) changed += block.at[i] != operation.sent[at++] ? 1 : 0;
  }
  if (changed > 0) report(operation, "to", changed);
  for (const Block& block : operation.outputs) {
    changed += block.bytes - static_cast<std::size_t>(std::count(block.at, block.at + block.bytes, garbage));
  }
  if (changed > 0) report(operation, "from", changed);
  for (const Block& block : operation.outputs) {
    std::memcpy(block.at, &operation.arrived[static_cast<std::size_t>(block.at - operation.base)], block.bytes);
  }
  PMPI_Grequest_complete(*handle);
  PMPI_Wait(handle, MPI_STATUS_IGNORE);
  if (status != MPI_STATUS_IGNORE) *status = operation.status;
}

/// Tests one request, which may be one of MPI's own.
inline int test(MPI_Request handle, int* ready) {
  const auto found = in_flight.find(handle);
  if (found == in_flight.end()) return PMPI_Request_get_status(handle, ready, MPI_STATUS_IGNORE);
  Operation& operation = found->second;
  *ready = operation.complete && operation.tests_left-- <= 0 ? 1 : 0;
  if (operation.complete) return MPI_SUCCESS;
  int complete = 0;
  const int code = PMPI_Test(&operation.request, &complete, &operation.status);
  operation.complete = complete != 0;
  return code;
}

}  // namespace checker
