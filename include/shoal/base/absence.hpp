// SPDX-License-Identifier: Apache-2.0
// Only one thread at a time may call MPI, normally the main thread. While the main thread computes or waits for the
// operating system, it declares itself absent. The watchdog's thread may then call MPI in its place, to answer other ranks
// that ask whether this one is alive. So a rank can answer even if one kernel takes longer than comm.timeout.
//
//   main thread   MPI ... Absence begins [ a kernel                     ] Absence ends ... MPI
//   watchdog                                    stand_in(answer)
//                                               ^ if the kernel ends now, the main thread waits until the answer is sent
#pragma once

#include <functional>

namespace shoal {

/// The calling thread does not call MPI while an Absence exists. Absences may be nested; the outermost one counts. It costs
/// a few nanoseconds on the main thread between begin_absences() and end_absences(), and only a test otherwise.
class Absence {
 public:
  Absence() noexcept;
  ~Absence();
  Absence(const Absence&) = delete;
  Absence& operator=(const Absence&) = delete;

  /// Returns true if the calling thread has declared itself absent. It must not make communication progress then.
  static bool here();
};

/// Declares the calling thread to be the main thread, the one that calls MPI. From now on other threads see its absences.
void begin_absences();
void end_absences();

/// If the main thread is absent, calls `act` on this thread; the absence cannot end before `act` has returned. Returns true
/// if `act` was called.
bool stand_in(const std::function<void()>& act);
/// Returns true if the main thread is absent at this moment.
bool main_thread_absent();

}  // namespace shoal
