// SPDX-License-Identifier: Apache-2.0
// A part of a run that has a name for MPI profilers.
#pragma once

namespace shoal::comm {

/// From its construction until its end, by MPI_Pcontrol(1, name) and MPI_Pcontrol(-1, name), as IPM reads them. MPI itself
/// ignores the calls: they are for libraries that are put between a program and MPI to count and to time messages, which
/// could otherwise not tell one step's messages from the next one's.
class ProfiledRegion {
 public:
  /// name: must outlive the region.
  explicit ProfiledRegion(const char* name);
  ~ProfiledRegion();
  ProfiledRegion(const ProfiledRegion&) = delete;
  ProfiledRegion& operator=(const ProfiledRegion&) = delete;

 private:
  const char* name_;
};

}  // namespace shoal::comm
