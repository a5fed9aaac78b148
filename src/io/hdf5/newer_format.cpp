// SPDX-License-Identifier: Apache-2.0
#include "io/hdf5/newer_format.hpp"

#include <hdf5.h>

#include <array>

namespace shoal::io::hdf5 {

namespace {

/// The version of the superblock at the start of an HDF5 file: it follows the signature. HDF5 1.8 knows 0 to 2.
constexpr std::uint64_t version_at = 8;
constexpr int last_of_hdf5_1_8 = 2;

int superblock_version(const std::filesystem::path& path) {
  const File file(path, File::Mode::read);
  std::array<std::byte, 1> version{};
  if (file.size() <= version_at) return 0;
  file.read(version_at, version);
  return std::to_integer<int>(version[0]);
}

}  // namespace

std::string advice_on_format(const std::filesystem::path& file, const std::string& reason) {
  const bool of_version = reason.find("version") != std::string::npos;  // of the superblock, or of what it leads to
  if (!of_version || superblock_version(file) <= last_of_hdf5_1_8) return {};
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return text(": a format that HDF5 ", major, ".", minor, ".", release,
              " cannot read; write it with libver=\"earliest\" in h5py, or convert it with the h5repack of a newer HDF5");
}

}  // namespace shoal::io::hdf5
