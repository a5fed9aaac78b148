// SPDX-License-Identifier: Apache-2.0
// The checkpoints of a directory, as one rank sees them: which run wrote each, and which are whole. This decides from which
// checkpoint a run may resume, and which checkpoints it may delete: only those of its own lineage (io/lineage.hpp), and only
// if enough newer ones are whole. It never deletes checkpoints of other runs, abandoned ones and damaged files.
//
// [Note: Whole] A file is whole if its data were read back and agreed with its checksums, or if this process wrote it. Files
// that were there before are opened once (seal and metadata); their data are read only if a deletion depends on them. Only
// the constructor uses HDF5, which is not thread-safe, so prune() may be called on another thread.
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

/// Indices of the checkpoints of the lineage that are older than its `keep` newest whole ones, but for that of the step
/// `spared`. whole(index): called for as few checkpoints as possible, newest first.
std::vector<std::size_t> to_delete(const std::vector<CheckpointOrigin>& checkpoints, const Lineage& lineage, int keep,
                                   const std::function<bool(std::size_t)>& whole,
                                   std::optional<std::int64_t> spared = std::nullopt);

class CheckpointDirectory {
 public:
  /// Opens all checkpoints in the directory; one that does not exist has none. Throws an Error if it cannot be listed.
  explicit CheckpointDirectory(std::filesystem::path directory);

  const std::filesystem::path& path() const { return path_; }

  /// The files that `resume = latest` tries, newest first: the checkpoints of the run's lineage, and those that are so
  /// damaged that their run is unknown. If the directory has none of the lineage, `resumed_from` comes last: the file from
  /// which the run itself was resumed. Without a run, the lineage is the one to which all checkpoints of the directory
  /// belong. bad_input() that lists the checkpoints if it is not clear which ones are meant; an Error if a file cannot be
  /// read at all. Returns nothing if there are no checkpoints.
  /// allowed: what the message proposes.
  std::vector<std::filesystem::path> of_lineage(
      const std::optional<Lineage>& run, const std::filesystem::path& resumed_from = {},
      const std::string& allowed = "checkpoint.resume = the path of one of them") const;
  /// A line that names runs and steps of the readable checkpoints that are not of the lineage; empty if there are none.
  std::string others(const Lineage& lineage) const;

  /// Returns true if the directory has a readable checkpoint of this lineage and step.
  bool has(const Lineage& lineage, std::int64_t step) const;

  /// To be called when the file was read and its checksums agreed.
  void is_whole(const std::filesystem::path& file);
  /// To be called when this process wrote the file. It replaces what had this name before.
  void wrote(const std::filesystem::path& file, const CheckpointOrigin& checkpoint);

  /// Deletes the temporary files that earlier runs left. To be called before this process writes its first checkpoint, which
  /// may need their disk space; later calls do nothing.
  void remove_unfinished();
  /// Deletes the checkpoints that to_delete() names (none if keep is 0). On return their names no longer exist; their disk
  /// space becomes free a little later. If there are no more checkpoints than to keep, and all were read, it asks nothing of
  /// the file system. Returns a line for the log for each damaged checkpoint of the lineage that this call is the first to
  /// find.
  std::vector<std::string> prune(const Lineage& lineage, int keep, std::optional<std::int64_t> spared = std::nullopt);
  /// Waits until the disk space of the files that remove_unfinished() and prune() deleted is free.
  void wait_for_space() { removal_.wait(); }

 private:
  /// Size and time of change: if they differ, the file is not the one that was opened.
  struct Stamp {
    std::int64_t bytes = 0, changed_ns = 0;
    bool operator==(const Stamp&) const = default;
  };
  enum class Data { unread, whole, damaged };
  struct Known {
    std::filesystem::path file;
    CheckpointOrigin checkpoint;
    Data data = Data::unread;
    std::optional<Stamp> stamp;               // none if this process wrote the file
    std::vector<CheckpointDataset> datasets;  // kept only while data == unread
  };
  struct Unreadable {
    std::filesystem::path file;
    std::int64_t step;  // from its name
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
  bool cleaned_ = false;  // remove_unfinished() was called
  Removal removal_;
};

}  // namespace shoal::io
