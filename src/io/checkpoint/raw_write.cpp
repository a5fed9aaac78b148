// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/raw_write.hpp"

#include <sys/vfs.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "io/checkpoint/collective_write.hpp"
#include "io/files/agreement.hpp"
#include "shoal/comm/wait.hpp"

namespace shoal::io {

namespace {

/// Write-back to disk is started whenever a rank has written this many bytes.
constexpr std::size_t writeback_bytes = std::size_t{16} << 20U;

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
  int cores = 0;
  for (const std::uint64_t word : comm::usable_cores()) cores += std::popcount(word);
  return world.node().size() > cores;
}

}  // namespace

/// Checks before each write whether it has to stop. Starts write-back at intervals, so that writing to disk overlaps copying
/// into the page cache.
bool write_parts(File& file, const std::vector<RawPart>& parts, const std::atomic<bool>* stop) {
  std::size_t since = 0;
  bool stopped = false;
  const auto write = [&](RawPart piece) {
    while (!piece.values.empty()) {
      stopped = stopped || (stop != nullptr && *stop);
      if (stopped) return;
      const RawPart next = cut(piece, write_elements);
      add_checksum(next);
      file.write(next.offset, std::as_bytes(next.values));
      since += next.values.size_bytes();
      if (since < writeback_bytes) continue;
      file.start_writeback();
      since = 0;
    }
  };
  for (const RawPart& part : parts) {
    for_each_piece(part, write);
    if (stopped) return false;
  }
  file.start_writeback();
  return true;
}

IoMode resolve(comm::World& world, const std::filesystem::path& file, IoMode mode) {
  if (mode != IoMode::automatic) return mode;
  // MPI-IO takes what stands before a colon for the name of a file system.
  const bool colon = file.native().find(':') != std::string::npos;
  const bool parallel = world.rank() != 0 || on_parallel_file_system(file);  // rank 0 asks for all
  std::int64_t independent = colon || !parallel || ranks_outnumber_cores(world) ? 1 : 0;
  world.all().all_reduce(Span<std::int64_t>(&independent, 1), comm::Reduce::max).wait();
  return independent != 0 ? IoMode::independent : IoMode::collective;
}

void write_raw(comm::World& world, const std::filesystem::path& path, File* also, std::vector<RawPart> parts, IoMode mode,
               const std::function<void()>& when_written) {
  std::erase_if(parts, [](const RawPart& part) { return part.values.empty(); });
  std::sort(parts.begin(), parts.end(), [](const RawPart& a, const RawPart& b) { return a.offset < b.offset; });
  File file;
  if (resolve(world, path, mode) == IoMode::collective) {
    write_collectively(world, path, parts);  // and synced
  } else {
    together(world.all(), [&] {
      file = File(path, File::Mode::write_only);
      write_parts(file, parts);
    });
  }
  when_written();
  // Not earlier: a sync while others still write would wait for their pages, too.
  together(world.all(), [&] {
    if (world.rank() != 0) also = nullptr;
    File& to_sync = also != nullptr ? *also : file;
    const bool syncs = world.node().rank() == 0 || world.rank() == 0;
    if (syncs && to_sync.is_open()) to_sync.sync();
    file.close();
    if (also != nullptr) also->close();
  });
}

}  // namespace shoal::io
