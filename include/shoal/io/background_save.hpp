// SPDX-License-Identifier: Apache-2.0
// A checkpoint that is written from a copy while the training goes on.
//
//   start()    the ranks copy their slices, with their checksums; rank 0 reserves the space and lays the file out  (blocks)
//   writing    each rank: its copy to the file, then fsync                                               (its own thread)
//   finishing  rank 0: the final name, the directory synced, then what was asked for                     (its own thread)
//
// From one part to the next the ranks go together: at each step's border advance() looks at what they said at the border
// before (an all-reduce of two numbers, under way during the step) and says anew how far this rank is. So all ranks decide
// alike, at the same border, and none waits for a disk.
//
// [Note: A thread, not slices of work between kernels] A write returns when the disk lets it, and an fsync cannot be cut at
// all: 1 MiB to a local disk takes 0.2 ms mostly and 36 ms at times, the fsync 75 ms; a system that holds many unwritten
// pages stops a writer for longer. All ranks of a step would wait for it. A thread is stopped alone, and its low priority
// bounds what it takes from a rank that has but one core.
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
  /// Elements of memory that a copy of these slices takes.
  static std::size_t copy_elements(const std::vector<TensorSlice>& tensors);

  /// copy: as many elements, used by nobody else while a save is under way. `world` and it outlive this.
  BackgroundSave(comm::World& world, Span<float> copy);
  /// Not collective. A save under way is given up: what is written of it stays under its temporary name, until
  /// CheckpointDirectory::prune() finds it.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// Collective; as save_checkpoint(), independently written, but returns when the copy is made and the file laid out: the
  /// tensors may change. A save under way is finished first. Disk space is reserved before it returns, so that a full disk
  /// is an error here. then: called on rank 0 when the file is complete, on a thread of its own, so without HDF5. Returns
  /// bytes that will have been written by all ranks.
  std::uint64_t start(const std::filesystem::path& file, const CheckpointState& state,
                      const std::vector<TensorSlice>& tensors, std::function<void()> then = {});

  bool under_way() const;

  /// Collective: called by all ranks at the same borders of steps; waits for nothing but the ranks' words of the border
  /// before. A write that failed on any rank is an Error here, the same on all; nothing is left of the file, and earlier
  /// ones are untouched.
  void advance();

  /// Collective. Returns when the save under way is complete; errors as advance().
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shoal::io
