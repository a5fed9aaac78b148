// SPDX-License-Identifier: Apache-2.0
#include "shoal/io/disk_probe.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <utility>
#include <vector>

#include "io/checkpoint/checkpoint_layout.hpp"
#include "io/checkpoint/raw_write.hpp"
#include "io/files/agreement.hpp"
#include "io/files/files.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/mpi_free.hpp"

namespace shoal::io {

namespace {

using Clock = std::chrono::steady_clock;

/// What rank r writes as its element i: different for all ranks and elements.
float value(int rank, std::size_t i) { return static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 13) % 65521); }

std::vector<float> values_of(int rank, std::size_t elements) {
  std::vector<float> values(elements);
  for (std::size_t i = 0; i < elements; ++i) values[i] = value(rank, i);
  return values;
}

/// Reads what `rank` should have written.
void check_block(const std::filesystem::path& path, int rank, std::size_t elements) {
  std::vector<float> found(elements);
  const File file(path, File::Mode::read);
  const std::size_t bytes = elements * sizeof(float);
  file.read(static_cast<std::uint64_t>(rank) * bytes, std::as_writable_bytes(Span<float>(found)));
  for (std::size_t i = 0; i < elements; ++i) {
    require(found[i] == value(rank, i), path.string(), ": byte ", static_cast<std::size_t>(rank) * bytes + i * sizeof(float),
            " is not what rank ", rank, " has written and synced");
  }
}

std::int64_t sum(comm::World& world, std::int64_t mine) {
  world.all().all_reduce(Span<std::int64_t>(&mine, 1), comm::Reduce::sum).wait();
  return mine;
}

/// Waits for the disk or the file server, so that only the watchdog may call MPI meanwhile.
bool locks(int descriptor) {
  const MpiFree mpi_free;
  return descriptor >= 0 && ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
}

}  // namespace

double write_probe(comm::World& world, const std::filesystem::path& file, std::size_t bytes, IoMode mode) {
  comm::Communicator& group = world.all();
  const std::size_t elements = bytes / sizeof(float);
  const std::vector<float> values = values_of(group.rank(), elements);
  const auto offset = static_cast<std::uint64_t>(group.rank()) * elements * sizeof(float);
  double seconds = 0;
  return or_remove(group, file, [&] {
    together_by_0(group, [&] {
      File empty(file, File::Mode::create);
      empty.truncate(static_cast<std::uint64_t>(group.size()) * elements * sizeof(float));
      empty.close();
    });
    const Clock::time_point begin = Clock::now();
    write_raw(world, file, nullptr, {{offset, values, 0, nullptr}}, mode, [] {});
    seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    group.all_reduce(Span<double>(&seconds, 1), comm::Reduce::max).wait();
    together(group, [&] { check_block(file, (group.rank() + 1) % group.size(), elements); });
    together_by_0(group, [&] { std::filesystem::remove(file); });
    return seconds;
  });
}

LockProbe lock_probe(comm::World& world, const std::filesystem::path& file) {
  comm::Communicator& group = world.all();
  LockProbe probe;
  const int created = ::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  probe.created = static_cast<int>(sum(world, created >= 0 ? 1 : 0));
  if (created >= 0) ::close(created);
  const int opened = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  probe.blind = static_cast<int>(sum(world, opened >= 0 ? 0 : 1));
  const bool first = group.rank() == 0 && locks(opened);
  probe.flock_works = sum(world, first ? 1 : 0) == 1;
  const bool second = group.rank() != 0 && probe.flock_works && locks(opened);
  // A second lock keeps out others that could lock it, too, so this counts at least one of them.
  probe.double_locks = static_cast<int>(sum(world, second ? 1 : 0));
  if (opened >= 0) ::close(opened);
  together_by_0(group, [&] { std::filesystem::remove(file); });
  return probe;
}

std::size_t free_disk_bytes(const std::filesystem::path& directory) {
  struct statvfs disk {};
  require(::statvfs(directory.c_str(), &disk) == 0, directory.string(), ": the free space of its disk cannot be read");
  return static_cast<std::size_t>(disk.f_bavail) * disk.f_frsize;
}

}  // namespace shoal::io
