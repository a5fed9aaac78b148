// SPDX-License-Identifier: Apache-2.0
#include "io/hdf5/newer_format.hpp"

#include <hdf5.h>

namespace shoal::io::hdf5 {

namespace {

/// What follows the signature at the start of an HDF5 file, its superblock: the version, of which HDF5 1.8 knows 0 to 2, the
/// sizes of addresses and lengths, and from version 3 on whether a program has the file open for writing.
struct Superblock {
  std::uint8_t version = 0, address_bytes = 0, length_bytes = 0, flags = 0;
  bool is_newer() const { return version > 2; }
};
constexpr std::uint64_t superblock_at = 8;
constexpr unsigned open_for_writing = 0x1, open_for_swmr_writing = 0x4;

Superblock superblock(const File& file) {
  Superblock found;
  if (file.size() < superblock_at + sizeof found) return found;
  file.read(superblock_at, std::as_writable_bytes(Span<Superblock>(&found, 1)));
  return found;
}

}  // namespace

std::string advice_on_format(const std::filesystem::path& file, const std::string& reason) {
  const bool of_version = reason.find("version") != std::string::npos;  // of the superblock, or of what it leads to
  if (!of_version || !superblock(File(file, File::Mode::read)).is_newer()) return {};
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return text(": a format that HDF5 ", major, ".", minor, ".", release,
              " cannot read; write it with libver=\"earliest\" in h5py, or convert it with the h5repack of a newer HDF5");
}

void require_closed(const File& file) {
  const Superblock found = superblock(file);
  const bool open = found.is_newer() && (found.flags & (open_for_writing | open_for_swmr_writing)) != 0;
  require_input(
      !open, file.path().string(),
      ": a program has it open for writing, or has ended without closing it; if none uses it: h5clear --status FILE");
}

}  // namespace shoal::io::hdf5
