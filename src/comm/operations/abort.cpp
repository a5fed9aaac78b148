// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/abort.hpp"

#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>

#include "comm/operations/device_operations.hpp"
#include "shoal/base/activity.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/output.hpp"

namespace shoal::comm {

namespace {

/// Time for the launcher to read the output: hydra ends at an abort without forwarding what it has not read yet.
constexpr std::chrono::milliseconds launcher_reads(200);

constexpr std::string_view words = "A rank has ended all ranks";

std::mutex mutex;
std::string file;  // guarded by mutex
std::atomic<int> exit_code_of_all{0};

void leave_note() {
  const std::lock_guard lock(mutex);
  if (file.empty()) return;
  // O_EXCL: the first rank's note is enough.
  const int note = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (note < 0 && errno == EEXIST) return;
  if (note < 0 ||
      dprintf(note, "%s with exit code %d. The log has the reason.\n", words.data(), exit_code_of_all.load()) < 0) {
    output::complain(text("shoal: ", file, ": cannot be written: ", std::strerror(errno), "\n"));
  }
  if (note >= 0) close(note);
}

/// In a thread of its own: the file system may be what hangs.
void start_note() {
  try {
    std::thread(leave_note).detach();
  } catch (const std::system_error& error) {
    output::complain(text("shoal: no thread for a note of the end: ", error.what(), "\n"));
  }
}

}  // namespace

void note_aborts_in(const std::string& path) {
  const std::lock_guard lock(mutex);
  file = path;
}

bool is_note_of_abort(const std::string& path) {
  std::ifstream note(path);
  std::string begin(words.size(), ' ');
  return note.read(begin.data(), static_cast<std::streamsize>(begin.size())) && begin == words;
}

void abort_all(int exit_code) {
  exit_code_of_all = exit_code;
  activity::set_aborting();  // ranks of this machine read it, also when this process has ended
  std::fflush(nullptr);
  release_device();
  start_note();
  std::this_thread::sleep_for(launcher_reads);
  // MPI_Abort calls exit() after it has told the launcher. Handlers of libraries could wait for threads there that never end
  // (observed with MPICH and UCX, when another thread waits for a dead rank); this one, the last registered, comes first.
  std::atexit([] { std::_Exit(exit_code_of_all); });
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

}  // namespace shoal::comm
