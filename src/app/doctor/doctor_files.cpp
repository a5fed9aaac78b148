// SPDX-License-Identifier: Apache-2.0
// shoal doctor: the disk on which checkpoints would be written.
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "app/doctor/doctor.hpp"
#include "app/support/collective.hpp"
#include "app/support/text_table.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/notation.hpp"
#include "shoal/io/disk_probe.hpp"
#include "shoal/io/file_system.hpp"
#include "shoal/io/hdf5.hpp"
#include "shoal/io/target.hpp"

namespace shoal::app::doctor {

namespace {

constexpr std::size_t first_bytes = std::size_t{1} << 20U, most_bytes = std::size_t{32} << 20U;
constexpr double slow_disk = 50e6, least_free = 1e9;

/// A name that no other file has: of the process of rank 0 and this moment.
std::filesystem::path probe_file(Subject& subject) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  return subject.directory / broadcast_text(subject.world.all(), text(".shoal-doctor-", getpid(), "-", now), 0);
}

/// Collective. Bytes that all ranks write together, per second. The amount is chosen from a first, small attempt, so that a
/// slow disk is not written for longer than the limit.
double write_rate(Subject& subject, io::IoMode mode) {
  const auto ranks = static_cast<double>(subject.world.size());
  const std::filesystem::path file = probe_file(subject);
  const double first_s = io::write_probe(subject.world, file, first_bytes, mode);
  const double wanted = static_cast<double>(first_bytes) * subject.limit_s / 4 / std::max(first_s, 1e-6);
  const auto bytes =
      static_cast<std::size_t>(std::clamp(wanted, static_cast<double>(first_bytes), static_cast<double>(most_bytes)));
  const std::size_t whole = bytes / first_bytes * first_bytes;
  const double seconds = io::write_probe(subject.world, file, whole, mode);
  return static_cast<double>(whole) * ranks / seconds;
}

bool has_colon(const std::filesystem::path& path) { return path.native().find(':') != std::string::npos; }

}  // namespace

Finding check_disk(Subject& subject) {
  comm::World& world = subject.world;
  const std::string problem = first_problem(world, io::why_not_writable(subject.directory));
  if (!problem.empty()) {
    return {Grade::fail, problem, "name another directory (--dir, checkpoint.dir); all nodes need to see it", {}};
  }
  on_rank_0(world.all(), [&] { std::filesystem::create_directories(subject.directory); });
  const double rate = write_rate(subject, io::IoMode::independent);
  const auto free = static_cast<double>(io::free_disk_bytes(subject.directory));
  Finding finding;
  finding.found =
      text(subject.directory.string(), " (", io::file_system_of(subject.directory), "): all ranks together write ",
           rate_text(rate), " each for itself, synced and read back; ", bytes_text(static_cast<std::size_t>(free)), " free");
  finding.values = {{"bytes_per_s", rate}, {"free_bytes", free}};
  if (rate < slow_disk)
    finding.worse(Grade::warn, "saving will take long; use a parallel file system, or checkpoint.async=true");
  if (free < least_free)
    finding.worse(Grade::warn, "little space is left; a checkpoint needs 12 bytes per parameter with AdamW");
  return finding;
}

Finding check_mpi_io(Subject& subject) {
  if (has_colon(std::filesystem::absolute(subject.directory))) {
    return {Grade::warn, "not tried: MPI-IO cannot write to a path with a colon", "use checkpoint.io=independent", {}};
  }
  const double rate = write_rate(subject, io::IoMode::collective);
  Finding finding;
  finding.found = text("all ranks together write ", rate_text(rate), " collectively, synced and read back");
  finding.values = {{"bytes_per_s", rate}};
  return finding;
}

Finding check_locks(Subject& subject) {
  const io::LockProbe probe = io::lock_probe(subject.world, probe_file(subject));
  Finding finding;
  finding.found = text(probe.created, " of ", subject.world.size(), " ranks created one file exclusively; flock() ",
                       !probe.flock_works        ? "does not work"
                       : probe.double_locks != 0 ? "does not keep other ranks out"
                                                 : "keeps other ranks out");
  finding.values = {{"created", probe.created}, {"blind", probe.blind}, {"double_locks", probe.double_locks}};
  if (probe.created != 1) {
    finding.worse(Grade::fail, "two runs could write to one directory; this file system must not be used for checkpoints");
  }
  if (probe.blind != 0) {
    finding.worse(
        Grade::fail,
        text(probe.blind, " ranks do not see a file that another one created; use a directory that all nodes share"));
  }
  if (!probe.flock_works || probe.double_locks != 0) {
    finding.worse(
        Grade::warn,
        "h5py and other programs that open a checkpoint may need HDF5_USE_FILE_LOCKING=FALSE; shoal needs no flock()");
  }
  return finding;
}

Finding check_hdf5(Subject& /*subject*/) {
  const auto [name, version] = io::library_version();
  const bool parallel = version.find("parallel") != std::string::npos;
  Finding finding;
  finding.found = text(name, " ", version, parallel ? "" : ", not parallel");
  finding.values = {{"parallel", parallel ? 1 : 0}};
  if (!parallel) finding.worse(Grade::fail, "load the parallel HDF5 of your MPI library (hdf5+mpi) and build again");
  return finding;
}

}  // namespace shoal::app::doctor
