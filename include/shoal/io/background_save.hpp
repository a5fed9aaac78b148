// SPDX-License-Identifier: Apache-2.0
// A checkpoint that is written from a copy while the training continues.
//
//   start()    the ranks copy and hash their slices; rank 0 reserves disk space and lays the file out  (blocks)
//   writing    each rank writes its copy to the file, then calls fsync                                 (its own thread)
//   finishing  rank 0 gives the file its final name, syncs the directory, then calls `then`            (its own thread)
//
// All ranks enter the next phase at the same step boundary, and no rank waits for a disk. advance(), which is called at each
// boundary, reads the result of an all-reduce that ran during the step (is any rank still working? has any failed?) and
// starts the next one with the current state of this rank. So all ranks see the same two numbers and make the same decision.
//
// [Note: A thread, not parts of the work between kernels] A write returns when the disk allows it, and an fsync cannot be
// divided: writing 1 MiB to a local disk mostly takes 0.2 ms and sometimes 36 ms, the fsync 75 ms, and a system that holds
// many unwritten pages stops a writer for longer. Between kernels, all ranks would wait for that. A thread waits alone, and
// its low priority limits what it takes from a rank with only one core.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "shoal/io/checkpoint.hpp"

namespace shoal::io {

class BackgroundSave {
 public:
  /// Number of elements that a copy of these slices needs.
  static std::size_t copy_elements(const std::vector<TensorSlice>& tensors);

  /// copy: memory of the host of that many elements, used by nobody else during a save. `world` and `copy` must outlive this
  /// object.
  BackgroundSave(comm::World& world, Span<float> copy);
  /// Not collective. Abandons a save that is not complete: the unfinished file keeps its temporary name until
  /// CheckpointDirectory::prune() removes it.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// Collective. Like save_checkpoint() with IoMode::independent, but returns when the copy is made and the file is laid
  /// out; from then on the tensors may change. Finishes an earlier save first. Reserves disk space before it returns, so a
  /// full disk is an error here. then: called on rank 0 when the file is complete, on the background thread, so it must not
  /// use HDF5. Returns the number of bytes that all ranks together will have written.
  std::uint64_t start(const std::filesystem::path& file, const CheckpointState& state,
                      const std::vector<TensorSlice>& tensors, std::function<void()> then = {});

  bool under_way() const;

  /// Collective: all ranks call it at the same step boundaries. Waits only for the all-reduce that was started at the
  /// boundary before. If a write failed on any rank, throws the same Error on all ranks; the unfinished file is then
  /// removed, and earlier checkpoints are untouched.
  void advance();

  /// Collective. Waits until the save is complete, if there is one. Errors: as advance().
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shoal::io
