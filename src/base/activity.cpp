// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/activity.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <mutex>
#include <new>
#include <utility>

namespace shoal::activity {

namespace {

/// What changes together: a reader must not see the operation of one wait with the time of another.
struct Doing {
  Operation operation;
  Name phase{};
  std::int64_t since_ns = 0;  // when the wait began or ended; 0: it never waited
  std::int64_t waits = 0;
};
static_assert(sizeof(Doing) % sizeof(std::uint64_t) == 0);
constexpr std::size_t doing_words = sizeof(Doing) / sizeof(std::uint64_t);

constexpr std::uint64_t page_magic = 0x73686f616c000001;

/// [Note: a page that others read] The main thread of one process writes and others read, so everything is atomic. Other
/// threads of the process write `aborts` alone. `Doing` is written as words between two increments of `sequence`: a reader
/// tries again while it is odd or has changed. A process that was stopped in between leaves it odd; after some attempts the
/// reader takes what is there.
struct Page {
  std::atomic<std::uint64_t> magic{page_magic};
  std::atomic<std::int64_t> process{0};
  std::atomic<std::int64_t> beat_ns{0};
  std::atomic<std::int32_t> step{0}, unit{-1}, aborts{0};
  std::array<std::atomic<std::uint64_t>, most_groups> started{};
  std::atomic<std::uint64_t> sequence{0};
  std::array<std::atomic<std::uint64_t>, doing_words> doing{};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::int32_t>::is_always_lock_free);
constexpr std::size_t page_bytes = 4096;
static_assert(sizeof(Page) <= page_bytes);

constexpr int most_attempts = 100;

/// CLOCK_MONOTONIC, which is one clock for all processes of a machine.
std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constinit Page private_page;
constinit std::atomic<Page*> page{&private_page};
constinit std::atomic<const char*> current_phase{"start"};

constinit Doing mine;  // written by the main thread alone

void publish(Page& to) {
  const auto words = std::bit_cast<std::array<std::uint64_t, doing_words>>(mine);
  const std::uint64_t before = to.sequence.load(std::memory_order_relaxed);
  to.sequence.store(before + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (std::size_t i = 0; i < doing_words; ++i) to.doing[i].store(words[i], std::memory_order_relaxed);
  to.sequence.store(before + 2, std::memory_order_release);
}

Doing doing_of(const Page& from) {
  std::array<std::uint64_t, doing_words> words{};
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    const std::uint64_t before = from.sequence.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < doing_words; ++i) words[i] = from.doing[i].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 == 0 && from.sequence.load(std::memory_order_relaxed) == before) break;
  }
  auto doing = std::bit_cast<Doing>(words);
  doing.phase.back() = doing.operation.name.back() = '\0';
  return doing;
}

double seconds_since(std::int64_t then_ns, std::int64_t now) {
  return static_cast<double>(std::max<std::int64_t>(0, now - then_ns)) * 1e-9;
}

Picture picture_of(const Page& from) {
  const Doing doing = doing_of(from);
  const std::int64_t now = now_ns();
  Picture result;
  result.waits = doing.waits != 0 ? 1 : 0;
  result.operation = doing.operation;
  result.phase = doing.phase;
  result.step = from.step.load(std::memory_order_relaxed);
  result.unit = from.unit.load(std::memory_order_relaxed);
  result.aborts = from.aborts.load(std::memory_order_relaxed);
  if (doing.since_ns != 0) result.since_s = seconds_since(doing.since_ns, now);
  result.silent_s = seconds_since(from.beat_ns.load(std::memory_order_relaxed), now);
  for (std::size_t g = 0; g < most_groups; ++g) result.started[g] = from.started[g].load(std::memory_order_relaxed);
  return result;
}

Page& here() { return *page.load(std::memory_order_relaxed); }

/// The rank sets them, and its watchdog reads them, too.
struct UnitNames {
  std::mutex mutex;
  std::vector<std::string> names;
};
UnitNames& unit_names() {
  static UnitNames names;
  return names;
}

/// Runs before main(), so that no rank counts as silent since the machine's start.
const bool begun = [] {
  enter_phase("start");
  return true;
}();

/// A new page in memory that other processes can map; nullptr if there is none.
Page* shareable_page(int& descriptor) {
  descriptor = ::memfd_create("shoal activity", MFD_CLOEXEC);
  if (descriptor < 0) return nullptr;
  void* memory = MAP_FAILED;
  if (::ftruncate(descriptor, page_bytes) == 0) {
    memory = ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  }
  if (memory != MAP_FAILED) return new (memory) Page;
  ::close(std::exchange(descriptor, -1));
  return nullptr;
}

}  // namespace

Name name_from(std::string_view text) {
  Name name{};
  text.copy(name.data(), name.size() - 1);
  return name;
}

void enter_phase(const char* name) {
  current_phase.store(name, std::memory_order_relaxed);
  mine.phase = name_from(name);
  publish(here());
  beat();
}

const char* phase() { return current_phase.load(std::memory_order_relaxed); }
void beat() { here().beat_ns.store(now_ns(), std::memory_order_relaxed); }
std::int64_t silence_ns() { return now_ns() - here().beat_ns.load(std::memory_order_relaxed); }
void set_step(std::int32_t step) { here().step.store(step, std::memory_order_relaxed); }
void set_unit(std::int16_t unit) { here().unit.store(unit, std::memory_order_relaxed); }

std::uint64_t count(std::int16_t group) {
  if (group < 0 || static_cast<std::size_t>(group) >= most_groups) return 0;
  std::atomic<std::uint64_t>& started = here().started[static_cast<std::size_t>(group)];
  const std::uint64_t number = started.load(std::memory_order_relaxed) + 1;
  started.store(number, std::memory_order_relaxed);
  return number;
}

void begin_wait(const Operation& operation) {
  mine.operation = operation;
  mine.waits = 1;
  mine.since_ns = here().beat_ns.load(std::memory_order_relaxed);
  publish(here());
}

void end_wait() {
  mine.waits = 0;
  mine.since_ns = here().beat_ns.load(std::memory_order_relaxed);
  publish(here());
}

void set_aborting() { here().aborts.store(1, std::memory_order_relaxed); }

Picture picture() { return picture_of(here()); }

int share() {
  static int descriptor = -1;
  if (descriptor >= 0) return descriptor;
  Page* const shared = shareable_page(descriptor);
  if (shared == nullptr) return -1;
  const Page& before = here();
  shared->process = getpid();
  shared->beat_ns = before.beat_ns.load();
  shared->step = before.step.load();
  shared->unit = before.unit.load();
  shared->aborts = before.aborts.load();
  for (std::size_t g = 0; g < most_groups; ++g) shared->started[g] = before.started[g].load();
  publish(*shared);
  page.store(shared);
  return descriptor;
}

OtherPage::OtherPage(std::int64_t process, int descriptor) {
  if (descriptor < 0) return;
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(descriptor);
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void* const memory = ::lseek(file, 0, SEEK_END) == static_cast<off_t>(page_bytes)
                           ? ::mmap(nullptr, page_bytes, PROT_READ, MAP_SHARED, file, 0)
                           : MAP_FAILED;
  ::close(file);
  if (memory == MAP_FAILED) return;
  const Page& there = *static_cast<const Page*>(memory);
  if (there.magic == page_magic && there.process == process) {
    page_ = memory;
  } else {
    ::munmap(memory, page_bytes);
  }
}

OtherPage::~OtherPage() {
  if (page_ != nullptr) ::munmap(const_cast<void*>(page_), page_bytes);
}

OtherPage::OtherPage(OtherPage&& other) noexcept : page_(std::exchange(other.page_, nullptr)) {}

OtherPage& OtherPage::operator=(OtherPage&& other) noexcept {
  std::swap(page_, other.page_);
  return *this;
}

Picture OtherPage::picture() const { return picture_of(*static_cast<const Page*>(page_)); }

void name_units(std::vector<std::string> names) {
  UnitNames& units = unit_names();
  const std::lock_guard lock(units.mutex);
  units.names = std::move(names);
}

std::string unit_name(int unit) {
  UnitNames& units = unit_names();
  const std::lock_guard lock(units.mutex);
  const std::vector<std::string>& names = units.names;
  const auto at = static_cast<std::size_t>(unit);
  return unit >= 0 && at < names.size() ? names[at] : std::to_string(unit);
}

}  // namespace shoal::activity
