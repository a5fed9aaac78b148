// SPDX-License-Identifier: Apache-2.0
// Only one thread at a time may call MPI, normally the main thread. While the main thread computes or waits for the
// operating system, it declares itself free of MPI. The watchdog's thread may then call MPI in its place, to answer other
// ranks that ask whether this one is alive. So a rank can answer even if one kernel takes longer than comm.timeout.
//
//   main thread   MPI ... MpiFree begins [ a kernel                     ] MpiFree ends ... MPI
//   watchdog                                    stand_in(answer)
//                                               ^ if the kernel ends now, the main thread waits until the answer is sent
#pragma once

#include <functional>

namespace shoal {

/// The calling thread does not call MPI while an MpiFree exists. Several may be nested; the outermost one counts. It costs
/// a few nanoseconds on the main thread between begin_mpi_free() and end_mpi_free(), and only a test otherwise.
class MpiFree {
 public:
  MpiFree() noexcept;
  ~MpiFree();
  MpiFree(const MpiFree&) = delete;
  MpiFree& operator=(const MpiFree&) = delete;

  /// Returns true while the calling thread has one. It must not make communication progress then.
  static bool here();
};

/// Declares the calling thread to be the main thread, the one that calls MPI. From now on other threads see when it is free
/// of MPI.
void begin_mpi_free();
void end_mpi_free();

/// If the main thread is free of MPI, calls `act` on this thread; its MpiFree cannot end before `act` has returned. Returns
/// true if `act` was called.
bool stand_in(const std::function<void()>& act);
/// Returns true if the main thread is free of MPI at this moment.
bool main_thread_is_mpi_free();

}  // namespace shoal
