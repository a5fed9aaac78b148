// SPDX-License-Identifier: Apache-2.0
// Which checkpoints are of one trajectory. Every training run has an identity of its own; one that goes on from a checkpoint
// remembers the runs before it, each with the step at which it was left:
//
//   run A   10   20   30   40          resumed from A's step 20, run B has the ancestors (A, 20):
//   run B          \_ 30   40          A's 10 and 20 and all of B's are its lineage, A's 30 and 40 are abandoned
//
// Programs before this one wrote no identities: all their checkpoints are of the run "".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shoal::io {

/// A run that was left for another one after its checkpoint of this step.
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

/// A run that begins now, with an identity drawn from the system's random numbers.
Lineage new_run();
/// The same for a run that goes on from a checkpoint that `before` wrote at `step`.
Lineage new_run_after(const Lineage& before, std::int64_t step);

/// Whether the checkpoint that `run` wrote at `step` is of this lineage.
bool belongs(const Lineage& lineage, const std::string& run, std::int64_t step);

/// A checkpoint, as far as lineages are concerned.
struct CheckpointOrigin {
  Lineage by;
  std::int64_t step = 0;
};
/// The lineage of one of them that all of them are of. Nothing: some were abandoned, or they are of different runs.
std::optional<Lineage> common_lineage(const std::vector<CheckpointOrigin>& checkpoints);

/// "3f2a91c04d5e", the begin of an identity, for messages; "unknown" of older programs.
std::string short_name(const std::string& run);
/// "3f2a91c04d5e until step 20, 77b0... until step 40".
std::string print(const std::vector<Ancestor>& ancestors);

/// Ancestors as texts by their place ("000000": "RUN STEP"), and back: bad_input() for what is none.
std::map<std::string, std::string> texts_of(const std::vector<Ancestor>& ancestors);
std::vector<Ancestor> ancestors_of(const std::map<std::string, std::string>& texts);

}  // namespace shoal::io
