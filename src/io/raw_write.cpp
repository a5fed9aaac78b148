// SPDX-License-Identifier: Apache-2.0
#include "raw_write.hpp"

#include <mpi.h>
#include <sched.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "agreement.hpp"
#include "files.hpp"
#include "hash.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"

namespace shoal::io {

namespace {

/// A collective write takes at most this many bytes from each rank, in blocks of at most a quarter: block lengths are int.
constexpr std::size_t largest_round = std::size_t{1} << 30U;

/// Number of elements that are hashed and then written at a time, so that they are read from memory once. A writer checks
/// whether it has to stop after each of these parts.
constexpr std::size_t write_elements = std::size_t{1} << 17U;
static_assert(write_elements % checksum_piece == 0);

/// Write-back to disk is started whenever a rank has written this many bytes.
constexpr std::size_t writeback_bytes = std::size_t{16} << 20U;

void require_mpi(int status, const std::string& what) {
  if (status == MPI_SUCCESS) return;
  char message[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, message, &length);
  std::replace(message, message + length, '\n', ' ');
  fail(what, ": ", std::string(message, static_cast<std::size_t>(length)));
}

bool on_parallel_file_system(const std::filesystem::path& file) {
  constexpr long lustre = 0x0BD00BD0, gpfs = 0x47504653, beegfs = 0x19830326;
  struct statfs status {};
  if (::statfs(file.c_str(), &status) != 0) return false;
  const auto type = static_cast<long>(status.f_type);
  return type == lustre || type == gpfs || type == beegfs;
}

/// Virtual nodes use the same cores without knowing it. If the user sets SHOAL_COMM_WAIT=sleep, ranks outnumber cores.
bool ranks_outnumber_cores(comm::World& world) {
  const char* wait = std::getenv("SHOAL_COMM_WAIT");
  if (wait != nullptr && std::strcmp(wait, "sleep") == 0) return true;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) return true;
  return world.node().size() > CPU_COUNT(&cores);
}

class MpiFile {
 public:
  MpiFile(MPI_Comm communicator, const std::filesystem::path& path) : path_(path.string()) {
    MPI_Info hints = MPI_INFO_NULL;
    MPI_Info_create(&hints);
    MPI_Info_set(hints, "romio_ds_write", "disable");  // read-modify-write would take longer than small writes
    status_ = MPI_File_open(communicator, path.c_str(), MPI_MODE_WRONLY, hints, &file_);
    MPI_Info_free(&hints);
  }
  ~MpiFile() {
    if (file_ != MPI_FILE_NULL) MPI_File_close(&file_);
  }
  MpiFile(const MpiFile&) = delete;
  MpiFile& operator=(const MpiFile&) = delete;

  /// Collective. An error is stored until finish(), so that no rank is missing in the next round.
  void write_all(Span<const RawPart> parts) {
    if (file_ == MPI_FILE_NULL) return;
    std::vector<int> lengths;
    std::vector<MPI_Aint> offsets, addresses;
    for (const RawPart& part : parts) {
      lengths.push_back(static_cast<int>(part.values.size_bytes()));
      offsets.push_back(static_cast<MPI_Aint>(part.offset));
      addresses.emplace_back();
      MPI_Get_address(part.values.data(), &addresses.back());
    }
    const int count = static_cast<int>(parts.size());
    MPI_Datatype in_file = MPI_BYTE, in_memory = MPI_BYTE;
    if (count > 0) {
      MPI_Type_create_hindexed(count, lengths.data(), offsets.data(), MPI_BYTE, &in_file);
      MPI_Type_create_hindexed(count, lengths.data(), addresses.data(), MPI_BYTE, &in_memory);
      MPI_Type_commit(&in_file);
      MPI_Type_commit(&in_memory);
    }
    keep(MPI_File_set_view(file_, 0, MPI_BYTE, in_file, "native", MPI_INFO_NULL));
    keep(MPI_File_write_at_all(file_, 0, MPI_BOTTOM, count > 0 ? 1 : 0, in_memory, MPI_STATUS_IGNORE));
    if (count > 0) {
      MPI_Type_free(&in_file);
      MPI_Type_free(&in_memory);
    }
  }

  void finish() {
    if (file_ != MPI_FILE_NULL) {
      keep(MPI_File_sync(file_));
      keep(MPI_File_close(&file_));
    }
    require_mpi(status_, path_ + ": cannot be written");
  }

 private:
  void keep(int status) {
    if (status_ == MPI_SUCCESS) status_ = status;
  }

  std::string path_;
  MPI_File file_ = MPI_FILE_NULL;
  int status_ = MPI_SUCCESS;
};

/// Removes the first `elements` elements, or all if there are fewer, from the part and returns them.
RawPart cut(RawPart& part, std::size_t elements) {
  const std::size_t n = std::min(part.values.size(), elements);
  const RawPart first{part.offset, part.values.first(n), part.piece, part.sum};
  part = {part.offset + n * sizeof(float), part.values.subspan(n), part.piece + n / checksum_piece, part.sum};
  return first;
}

void add_checksum(const RawPart& part) {
  if (part.sum != nullptr) *part.sum += sum_of_pieces(part.values, part.piece);
}

/// Cuts the parts into blocks, and groups the blocks into rounds of at most largest_round bytes.
std::vector<std::vector<RawPart>> rounds_of(const std::vector<RawPart>& parts) {
  std::vector<std::vector<RawPart>> rounds;
  std::size_t room = 0;
  for (RawPart part : parts) {
    while (!part.values.empty()) {
      if (room == 0) {
        rounds.emplace_back();
        room = largest_round;
      }
      rounds.back().push_back(cut(part, std::min(room, largest_round / 4) / sizeof(float)));
      room -= rounds.back().back().values.size_bytes();
    }
  }
  return rounds;
}

void write_collectively(comm::World& world, const std::filesystem::path& path, const std::vector<RawPart>& parts) {
  for (const RawPart& part : parts) {
    add_checksum(part);
    heartbeat::beat();
  }
  const std::vector<std::vector<RawPart>> rounds = rounds_of(parts);
  std::uint64_t most = rounds.size();
  world.all().all_reduce(Span<std::uint64_t>(&most, 1), comm::Reduce::max).wait();
  std::unique_ptr<MpiFile> file;
  together(world.all(),
           [&] { file = std::make_unique<MpiFile>(*static_cast<const MPI_Comm*>(world.mpi_communicator()), path); });
  for (std::size_t round = 0; round < most; ++round) {
    file->write_all(round < rounds.size() ? Span<const RawPart>(rounds[round]) : Span<const RawPart>());
    heartbeat::beat();
  }
  together(world.all(), [&] { file->finish(); });
}

}  // namespace

/// Starts write-back at intervals, so that writing to disk overlaps copying into the page cache.
bool write_parts(File& file, const std::vector<RawPart>& parts, const std::atomic<bool>* stop) {
  std::size_t since = 0;
  for (RawPart part : parts) {
    while (!part.values.empty()) {
      if (stop != nullptr && *stop) return false;
      const RawPart next = cut(part, write_elements);
      add_checksum(next);
      file.write(next.offset, std::as_bytes(next.values));
      since += next.values.size_bytes();
      if (since < writeback_bytes) continue;
      file.start_writeback();
      since = 0;
    }
  }
  file.start_writeback();
  return true;
}

IoMode resolve(comm::World& world, const std::filesystem::path& file, IoMode mode) {
  if (mode != IoMode::automatic) return mode;
  std::int64_t independent = !on_parallel_file_system(file) || ranks_outnumber_cores(world) ? 1 : 0;
  world.all().all_reduce(Span<std::int64_t>(&independent, 1), comm::Reduce::max).wait();
  return independent != 0 ? IoMode::independent : IoMode::collective;
}

void write_raw(comm::World& world, const std::filesystem::path& path, std::vector<RawPart> parts, IoMode mode,
               const std::function<void()>& when_written) {
  std::erase_if(parts, [](const RawPart& part) { return part.values.empty(); });
  std::sort(parts.begin(), parts.end(), [](const RawPart& a, const RawPart& b) { return a.offset < b.offset; });
  const bool collectively = resolve(world, path, mode) == IoMode::collective;
  if (collectively) write_collectively(world, path, parts);
  File file;
  together(world.all(), [&] {
    file = File(path, File::Mode::write);
    if (!collectively) write_parts(file, parts);
  });
  when_written();
  // Not earlier: a sync while others still write would wait for their pages, too.
  together(world.all(), [&] {
    file.sync();
    file.close();
  });
}

}  // namespace shoal::io
