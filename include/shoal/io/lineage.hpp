// SPDX-License-Identifier: Apache-2.0
// Which checkpoints belong to one trajectory. Every training run has an identity. A run that is resumed from a checkpoint
// remembers the runs before it, its ancestors, each with the step at which it was left:
//
//   run A   10   20   30   40          Run B, resumed from A's step 20, has the ancestor (A, 20). A's checkpoints 10 and 20
//   run B          \_ 30   40          and all of B's form its lineage; A's 30 and 40 are abandoned.
//
// Older programs wrote no identities: all their checkpoints belong to the run "".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shoal::io {

/// A run from whose checkpoint of this step another run was resumed.
struct Ancestor {
  std::string run;
  std::int64_t step = 0;
  bool operator==(const Ancestor&) const = default;
};

struct Lineage {
  std::string run;                  ///< 32 hexadecimal digits
  std::string started;              ///< "2025-03-14T15:09:26Z"
  std::vector<Ancestor> ancestors;  ///< oldest first
  bool operator==(const Lineage&) const = default;
};

/// The lineage of a run that starts now: a new identity from the system's random numbers, and no ancestors.
Lineage new_run();
/// The same for a run that is resumed from the checkpoint that `before` wrote at `step`.
Lineage new_run_after(const Lineage& before, std::int64_t step);

/// Returns true if the checkpoint that `run` wrote at `step` belongs to this lineage.
bool belongs(const Lineage& lineage, const std::string& run, std::int64_t step);

/// Identifies a checkpoint: the lineage of the run that wrote it, and its step.
struct CheckpointOrigin {
  Lineage by;
  std::int64_t step = 0;
};
/// The lineage of one of the checkpoints to which all of them belong. Nothing if some were abandoned, or if they are of
/// unrelated runs.
std::optional<Lineage> common_lineage(const std::vector<CheckpointOrigin>& checkpoints);

/// The first digits of an identity, for messages: "3f2a91c04d5e"; "unknown" for older programs' runs.
std::string short_name(const std::string& run);
/// "3f2a91c04d5e until step 20, 77b0... until step 40".
std::string print(const std::vector<Ancestor>& ancestors);

/// Ancestors as texts by their position ("000000": "RUN STEP"), and back; bad_input() if a text is not of this form.
std::map<std::string, std::string> texts_of(const std::vector<Ancestor>& ancestors);
std::vector<Ancestor> ancestors_of(const std::map<std::string, std::string>& texts);

}  // namespace shoal::io
