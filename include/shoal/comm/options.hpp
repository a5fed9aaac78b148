// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shoal/base/names.hpp"

namespace shoal::comm {

/// comm.backend: the library that sends messages between arenas (device/memory.hpp); MPI sends all others. automatic: nccl
/// on GPUs, else mpi.
enum class Backend : std::uint8_t { automatic, mpi, nccl };
inline constexpr std::array backend_names = {Named{Backend::automatic, "auto"}, Named{Backend::mpi, "mpi"},
                                             Named{Backend::nccl, "nccl"}};
constexpr const auto& table_of(Backend) { return backend_names; }

/// comm.collectives: the order in which gradients are summed. reproducible: the fixed tree of comm/tree_reduce.hpp. native:
/// the order that the MPI library chooses.
enum class Collectives : std::uint8_t { reproducible, native };
/// Bytes of all ranks together that the MPI library's reduce-scatter or all-gather takes at once. It counts with int.
inline constexpr std::size_t largest_native_bytes = std::size_t{1} << 30U;
inline constexpr std::array collectives_names = {Named{Collectives::reproducible, "reproducible"},
                                                 Named{Collectives::native, "native"}};
constexpr const auto& table_of(Collectives) { return collectives_names; }

/// comm.wait: what a rank does between two tests for a message (comm/wait.hpp). automatic: chosen at the start.
enum class Wait : std::uint8_t { automatic, yield, sleep };
inline constexpr std::array wait_names = {Named{Wait::automatic, "auto"}, Named{Wait::yield, "yield"},
                                          Named{Wait::sleep, "sleep"}};
constexpr const auto& table_of(Wait) { return wait_names; }

struct CommOptions {
  Backend backend = Backend::automatic;
  Collectives collectives = Collectives::reproducible;
  double bucket_mb = 25;            ///< largest message, in units of 10^6 bytes
  bool overlap = true;              ///< reduce while the backward pass continues
  bool gather_group = false;        ///< NCCL: gathers have communicators of their own
  DType reduce_dtype = DType::f32;  ///< the precision in which gradients are stored, summed and sent
  int ranks_per_node = 0;           ///< 0: as the machine has
  Wait wait = Wait::automatic;
  double timeout = 300;  ///< seconds without progress before a stalled rank is named and the run ends
};

}  // namespace shoal::comm
