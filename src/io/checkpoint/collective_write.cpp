// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/collective_write.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "io/files/agreement.hpp"
#include "io/files/files.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"

namespace shoal::io {

namespace {

/// A round takes at most this many elements (1 GiB) from each rank, in blocks of at most a quarter: block lengths in bytes
/// are int.
constexpr std::size_t round_elements = std::size_t{1} << 28U;
constexpr std::size_t block_elements = round_elements / 4;
static_assert(block_elements % checksum_piece == 0);

void require_mpi(int status, const std::string& what) {
  if (status == MPI_SUCCESS) return;
  char message[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, message, &length);
  std::replace(message, message + length, '\n', ' ');
  fail(what, ": ", std::string(message, static_cast<std::size_t>(length)));
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
    if (write_is_to_fail()) keep(MPI_ERR_IO);
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

/// Calls write(blocks) for one round after another of blocks that together are the parts. Each block begins at the beginning
/// of a checksum piece. Blocks are memory of the host; a copy is a round of its own, because the next one overwrites it.
template <typename Write>
void for_each_round(const std::vector<RawPart>& parts, const Write& write) {
  std::vector<RawPart> round;
  std::size_t room = round_elements;
  const auto end_round = [&] {
    if (!round.empty()) write(Span<const RawPart>(round));
    round.clear();
    room = round_elements;
  };
  for (const RawPart& part : parts) {
    for_each_piece(part, [&](RawPart piece) {
      const bool copied = piece.values.data() != part.values.data();
      while (!piece.values.empty()) {
        round.push_back(cut(piece, std::min(room, block_elements)));
        room -= round_up(round.back().values.size(), checksum_piece);
        if (room == 0) end_round();
      }
      if (copied) end_round();
    });
  }
  end_round();
}

}  // namespace

/// A rank's number of rounds follows from its parts alone, so the ranks know how many there are before the first one.
void write_collectively(comm::World& world, const std::filesystem::path& path, const std::vector<RawPart>& parts) {
  std::uint64_t most = 0, written = 0;
  for_each_round(parts, [&](Span<const RawPart> blocks) {
    ++most;
    for (const RawPart& block : blocks) {
      add_checksum(block);
      heartbeat::beat();
    }
  });
  world.all().all_reduce(Span<std::uint64_t>(&most, 1), comm::Reduce::max).wait();
  std::unique_ptr<MpiFile> file;
  together(world.all(),
           [&] { file = std::make_unique<MpiFile>(*static_cast<const MPI_Comm*>(world.mpi_communicator()), path); });
  const auto write = [&](Span<const RawPart> blocks) {
    file->write_all(blocks);
    ++written;
    heartbeat::beat();
  };
  for_each_round(parts, write);
  while (written < most) write({});
  together(world.all(), [&] { file->finish(); });
}

}  // namespace shoal::io
