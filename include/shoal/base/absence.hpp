// SPDX-License-Identifier: Apache-2.0
// MPI is entered by one thread at a time, and that is the main thread. While it is absent, because it computes or waits for
// the operating system, the watchdog's thread may enter MPI in its place and tell the ranks that ask that this one is at
// work. So a rank can answer even if one kernel lasts longer than comm.timeout.
//
//   main thread   MPI ... Absence begins [ a kernel                     ] Absence ends ... MPI
//   watchdog                                    stand_in(answer)
//                                               ^ if the kernel ends now, the main thread waits until the answer is sent
#pragma once

#include <functional>

namespace shoal {

/// The calling thread does not enter MPI while one lives. Absences may be nested; the outermost counts. Costs some
/// nanoseconds on the main thread between begin_absences() and end_absences(), and nothing but a test everywhere else.
class Absence {
 public:
  Absence() noexcept;
  ~Absence();
  Absence(const Absence&) = delete;
  Absence& operator=(const Absence&) = delete;

  /// Whether the calling thread has declared itself absent: then it must not make communication move.
  static bool here();
};

/// The calling thread is the one that enters MPI; from now on its absences are known to others.
void begin_absences();
void end_absences();

/// Calls act on this thread if the main thread is absent, and lets it return from its absence only afterwards. Returns
/// whether act was called.
bool stand_in(const std::function<void()>& act);
/// Whether the main thread is absent at this moment.
bool main_thread_absent();

}  // namespace shoal
