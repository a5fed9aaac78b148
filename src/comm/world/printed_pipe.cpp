// SPDX-License-Identifier: Apache-2.0
#include "comm/world/printed_pipe.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

namespace shoal::comm {

namespace {

namespace fs = std::filesystem;

using Clock = std::chrono::steady_clock;

/// A reader that has read nothing for so long may be gone, or slow.
constexpr std::chrono::seconds slow(2);

/// Returns true if the descriptor is open for reading. /proc/PID/fdinfo/N has its flags in octal.
bool reads(const fs::path& process, const fs::path& descriptor) {
  std::ifstream file(process / "fdinfo" / descriptor);
  for (std::string word; file >> word;) {
    int flags = 0;
    if (word == "flags:" && file >> std::oct >> flags) return (flags & O_ACCMODE) != O_WRONLY;
  }
  return false;
}

bool is_helper(const fs::path& process) {
  std::string name;
  std::ifstream(process / "comm") >> name;
  return name == helper_name;
}

/// Returns true if the process reads from the pipe. Files of another user's process (sudo tee) cannot be seen: such a
/// process counts as a reader if it belongs to the writer's process group, as the parts of a shell's pipeline do.
bool reads_from(const fs::path& process, const struct stat& pipe, pid_t group) {
  std::error_code error;
  fs::directory_iterator open(process / "fd", error);
  if (error == std::errc::permission_denied) return getpgid(std::atoi(process.filename().c_str())) == group;
  for (; !error && open != fs::directory_iterator(); open.increment(error)) {
    struct stat file {};
    if (stat(open->path().c_str(), &file) != 0 || file.st_ino != pipe.st_ino || file.st_dev != pipe.st_dev) continue;
    if (reads(process, open->path().filename())) return true;
  }
  return false;
}

}  // namespace

PrintedPipe::PrintedPipe(int descriptor, const ProcessId& writer)
    : descriptor_(descriptor), group_(getpgid(static_cast<pid_t>(writer.number))), unread_since_(Clock::now()) {}

PrintedPipe::PrintedPipe(PrintedPipe&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), group_(other.group_), unread_since_(other.unread_since_) {}

PrintedPipe::~PrintedPipe() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool PrintedPipe::newly_abandoned() {
  if (abandoned_) {
    drain();
    return false;
  }
  int waiting = 0;
  if (ioctl(descriptor_, FIONREAD, &waiting) != 0) return false;
  const bool somebody_reads = waiting == 0 || waiting < waiting_;
  waiting_ = waiting;
  const Clock::time_point now = Clock::now();
  if (somebody_reads) unread_since_ = now;
  if (now - unread_since_ < slow) return false;
  unread_since_ = now;  // asks again after the same time
  abandoned_ = !has_other_reader();
  return abandoned_;
}

bool PrintedPipe::has_other_reader() const {
  struct stat pipe {};
  if (fstat(descriptor_, &pipe) != 0) return true;
  std::error_code error;
  for (fs::directory_iterator process("/proc", error); !error && process != fs::directory_iterator();
       process.increment(error)) {
    const std::string name = process->path().filename();
    if (!std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; })) continue;
    if (!is_helper(process->path()) && reads_from(process->path(), pipe, group_)) return true;
  }
  return static_cast<bool>(error);  // nothing is known without /proc
}

void PrintedPipe::drain() const {
  std::array<char, 4096> dropped{};
  while (read(descriptor_, dropped.data(), dropped.size()) > 0) {
  }
}

std::vector<PrintedPipe> pipes_printed_into(const ProcessId& writer) {
  std::vector<PrintedPipe> pipes;
  ino_t first = 0;
  for (const int output : {STDOUT_FILENO, STDERR_FILENO}) {
    const std::string path = "/proc/" + std::to_string(writer.number) + "/fd/" + std::to_string(output);
    struct stat file {};
    if (stat(path.c_str(), &file) != 0 || !S_ISFIFO(file.st_mode) || file.st_ino == first) continue;
    const int descriptor = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) continue;  // not permitted: then the pipe is as it would be without the helper
    pipes.emplace_back(descriptor, writer);
    first = file.st_ino;
  }
  return pipes;
}

}  // namespace shoal::comm
