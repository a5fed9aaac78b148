// SPDX-License-Identifier: Apache-2.0
// Waits until a rank's activity page (base/activity.hpp) shows a moment, and then sends the rank a signal.
//   stall_at PROCESS SIGNAL [phase=NAME] [step=N] [unit=N] [operation=NAME] [waits=0|1]
// SIGNAL 0: none. step: this one or a later one, since a short moment may pass unseen. operation: the one that the rank
// waits for, or has waited for last, in this step. Prints what the page shows after the signal. Ends with 1 if the process
// has ended before.
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "shoal/base/activity.hpp"

namespace {

using shoal::activity::OtherPage;
using shoal::activity::Picture;
using shoal::activity::text_of;

/// A rank shares its page soon after its start. The moment may be a few microseconds long.
constexpr std::chrono::milliseconds between_searches(1);
constexpr std::chrono::microseconds between_looks(20);

/// The page of this process; not readable if it has none yet.
OtherPage page_of(pid_t process) {
  std::error_code none;
  const std::filesystem::path descriptors = "/proc/" + std::to_string(process) + "/fd";
  for (const auto& entry : std::filesystem::directory_iterator(descriptors, none)) {
    const std::string link = std::filesystem::read_symlink(entry.path(), none).string();
    if (link.starts_with("/memfd:shoal activity")) return {process, std::stoi(entry.path().filename().string())};
  }
  return {};
}

bool shows(const Picture& picture, std::string_view condition) {
  const std::size_t equals = condition.find('=');
  const std::string_view name = condition.substr(0, equals), value = condition.substr(equals + 1);
  if (name == "phase") return text_of(picture.phase) == value;
  if (name == "operation") return text_of(picture.operation.name) == value && picture.operation.step == picture.step;
  const int number = std::atoi(std::string(value).c_str());
  if (name == "step") return picture.step >= number;
  if (name == "unit") return picture.unit == number;
  if (name == "waits") return picture.waits == number;
  std::fprintf(stderr, "stall_at: no such condition: %s\n", std::string(condition).c_str());
  std::exit(2);
}

bool shows_all(const Picture& picture, int count, char** conditions) {
  for (int i = 0; i < count; ++i) {
    if (!shows(picture, conditions[i])) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const pid_t process = std::atoi(argv[1]);
  const int how = std::atoi(argv[2]);
  OtherPage page = page_of(process);
  for (; !page.readable(); page = page_of(process)) {
    if (kill(process, 0) != 0) return 1;
    std::this_thread::sleep_for(between_searches);
  }
  while (!shows_all(page.picture(), argc - 3, argv + 3)) {
    if (kill(process, 0) != 0) return 1;
    std::this_thread::sleep_for(between_looks);
  }
  if (how != 0) kill(process, how);
  const Picture there = page.picture();
  std::printf("phase %s, step %d, unit %d, %s %s\n", text_of(there.phase).data(), there.step, there.unit,
              there.waits != 0 ? "in" : "after", text_of(there.operation.name).data());
  return 0;
}
