// SPDX-License-Identifier: Apache-2.0
// What one rank knows of the checkpoints of a directory: which runs they are of, and which of them are whole. From it
// follows what a run may go on from, and what it may delete: nothing but checkpoints of its own lineage (io/lineage.hpp),
// once there are enough whole ones after them. Checkpoints of other runs, abandoned ones and damaged files are left alone.
//
// [Note: Whole] A file is whole if its checksums were read back, or if this process wrote it. Files that were there before
// are opened once (seal and metadata); their data are read only when a deletion depends on them. Nothing here but the
// constructor uses HDF5, which knows one thread: prune() may be called on another.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/io/checkpoint.hpp"
#include "shoal/io/lineage.hpp"
#include "shoal/io/removal.hpp"

namespace shoal::io {

/// Of these checkpoints, by their places: those of the lineage that are older than its `keep` newest whole ones. `whole` is
/// asked for as few as possible, newest first.
std::vector<std::size_t> to_delete(const std::vector<CheckpointOrigin>& checkpoints, const Lineage& lineage, int keep,
                                   const std::function<bool(std::size_t)>& whole);

class CheckpointDirectory {
 public:
  /// Opens all that are there; an absent directory is an empty one. Error: it cannot be listed.
  explicit CheckpointDirectory(std::filesystem::path directory);

  const std::filesystem::path& path() const { return path_; }

  /// What `resume = latest` tries, newest first: the checkpoints of a run's lineage, and those that are too damaged to tell
  /// whose they are; after them, where the directory has none of the lineage, the file that the run itself went on from.
  /// Without a run: of the one lineage that all of the directory's are of. bad_input() that lists what is there, where it is
  /// not clear which are meant; an error where a file could not be read at all; nothing where there is nothing.
  std::vector<std::filesystem::path> of_lineage(const std::optional<Lineage>& run,
                                                const std::filesystem::path& resumed_from = {}) const;
  /// Whether any readable checkpoint is not of the lineage, in a line that names runs and steps; empty: none.
  std::string others(const Lineage& lineage) const;

  /// The file was read and its checksums agreed.
  void is_whole(const std::filesystem::path& file);
  /// This process wrote the file, in place of what may have had its name.
  void wrote(const std::filesystem::path& file, const CheckpointOrigin& checkpoint);

  /// Deletes to_delete(), keep >= 1, and temporary files that an earlier run left; their space becomes free a little later
  /// than their names. Returns lines for the log: of damaged checkpoints of the lineage, once each.
  std::vector<std::string> prune(const Lineage& lineage, int keep);
  /// Until the space of what prune() deleted is free.
  void wait_for_space() { removal_.wait(); }

 private:
  /// What tells whether a file is still the one that was opened.
  struct Stamp {
    std::uintmax_t bytes = 0;
    std::filesystem::file_time_type changed;
    bool operator==(const Stamp&) const = default;
  };
  enum class Data { unread, whole, damaged };
  struct Known {
    std::filesystem::path file;
    CheckpointOrigin checkpoint;
    Data data = Data::unread;
    std::optional<Stamp> stamp;               // none: written by this process
    std::vector<CheckpointDataset> datasets;  // as long as data are unread
  };
  struct Unreadable {
    std::filesystem::path file;
    std::int64_t step;  // that its name says
    Error why;
  };

  static std::optional<Stamp> stamp_of(const std::filesystem::path& file);
  void open(const std::filesystem::path& file);
  void forget_changed();
  bool read_back(Known& known, std::vector<std::string>& lines);
  std::string list() const;

  std::filesystem::path path_;
  std::vector<Known> known_;
  std::vector<Unreadable> unreadable_;
  Removal removal_;
};

}  // namespace shoal::io
