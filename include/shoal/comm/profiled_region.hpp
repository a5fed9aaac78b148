// SPDX-License-Identifier: Apache-2.0
// Marks a part of a run, by name, for MPI profilers.
#pragma once

namespace shoal::comm {

/// Calls MPI_Pcontrol(1, name) when it is constructed and MPI_Pcontrol(-1, name) when it is destroyed, as IPM expects. MPI
/// itself ignores these calls. They are for profiling libraries between the program and MPI, which count and time messages,
/// and could not attribute them to a step otherwise.
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
