// SPDX-License-Identifier: Apache-2.0
#include "shoal/io/file_system.hpp"

#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace shoal::io {

namespace {

struct FileSystem {
  long type;
  const char* name;
};
/// The numbers of statfs(2) and of the parallel file systems' own headers.
constexpr std::array file_systems = {
    FileSystem{0x0BD00BD0, "Lustre"}, FileSystem{0x47504653, "GPFS"},      FileSystem{0x19830326, "BeeGFS"},
    FileSystem{0x6969, "NFS"},        FileSystem{0xEF53, "ext4"},          FileSystem{0x58465342, "XFS"},
    FileSystem{0x01021994, "tmpfs"},  FileSystem{0x794C7630, "overlayfs"}, FileSystem{0x9123683E, "btrfs"},
    FileSystem{0x2FC12FC1, "ZFS"},    FileSystem{0x00C36400, "CephFS"}};

}  // namespace

std::string file_system_of(const std::filesystem::path& directory) {
  struct statfs status {};
  if (::statfs(directory.c_str(), &status) != 0) return "unknown file system";
  const auto type = static_cast<long>(status.f_type);
  const auto found =
      std::find_if(file_systems.begin(), file_systems.end(), [&](const FileSystem& f) { return f.type == type; });
  if (found != file_systems.end()) return found->name;
  char number[32];
  std::snprintf(number, sizeof number, "file system 0x%lx", type);
  return number;
}

}  // namespace shoal::io
