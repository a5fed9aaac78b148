// SPDX-License-Identifier: Apache-2.0
// Executes the list of a stage: waits for what an action needs, computes it, and sends what it makes.
#pragma once

#include <cstddef>
#include <optional>

#include "shoal/pipeline/ports.hpp"

namespace shoal::pipeline {

/// The memory of what an action reads and makes. Empty: there is no such border.
struct Borders {
  Span<std::byte> in, out;
  Span<std::byte> skip_in, skip_out;  ///< of the skip connection (border.hpp)
};

/// What computes the parts of a stage. part: among those of the stage. Calls may enqueue work and return before it is done.
class Stage {
 public:
  virtual ~Stage() = default;
  /// in: the activations of the part before, which stay as they are until the backward pass of this part and turn; empty for
  /// the first part of the model. out: to be filled for the next part; empty for the last one.
  /// With a skip connection, skip_out of the first part: to be filled with its activations. In the last part skip_in are
  /// these activations, until the pass ends, and skip_out is to be filled with their gradients; if nothing is trained it is
  /// empty.
  virtual void forward(int part, std::size_t turn, const Borders& borders) = 0;
  /// in: the gradients of forward's `out`, which may be overwritten; empty for the last part of the model. out: to be filled
  /// with the gradients of forward's `in`; empty for the first part. skip_in: in the first part, the gradients of forward's
  /// skip_out.
  virtual void backward(int part, std::size_t turn, const Borders& borders) = 0;
  /// For the trace: the number in the step of the micro-batch of a turn, and the first unit of a part.
  virtual std::size_t micro_batch(std::size_t turn) const { return turn; }
  virtual int first_unit(int /*part*/) const { return -1; }
};

class Runner {
 public:
  /// training: the lists of all stages, for shape.turns turns; this rank is stage shape.stage. evaluation_lists() if nothing
  /// is trained. The other arguments as in Ports.
  Runner(comm::Communicator* group, Lists training, const ScheduleShape& shape, std::size_t border_bytes, Memory& memory);

  const Buffers& buffers() const { return buffers_[static_cast<std::size_t>(shape_.stage)]; }

  /// Executes the list of this stage. Every action is a heartbeat. The phases that the stage enters have in the trace the
  /// number of the micro-batch and the first unit of the part. Waits for messages, before them, are events of kind `wait`
  /// with the name `receive` or `send`. All stages must call the same functions in the same order. What was sent last may
  /// still be in flight afterwards.
  void train(Stage& stage);
  /// Forward passes of this many turns, 0, 1, 2, ... for each part (forward_only()).
  void evaluate(std::size_t turns, Stage& stage);

 private:
  void run(const Program& program, Stage& stage);

  Lists lists_;
  ScheduleShape shape_;
  std::vector<Buffers> buffers_;  // of all stages
  Ports ports_;
  std::optional<Program> training_, evaluation_;
};

}  // namespace shoal::pipeline
