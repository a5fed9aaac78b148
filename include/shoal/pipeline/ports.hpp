// SPDX-License-Identifier: Apache-2.0
// The memory of the borders of a stage, and the messages that carry them.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/comm/communicator.hpp"
#include "shoal/pipeline/program.hpp"

namespace shoal::pipeline {

class Ports {
 public:
  /// group: the stages of this pipeline in their order (comm::World::pipeline()); it must outlive this object, and may be
  /// null if there is one stage, or if `memory` only counts. buffers: of this stage (shape.stage). border_bytes: size of
  /// every border, of activations in the dtype of the model, also of those of the skip connection. Takes activations that
  /// are received from Kind::activations, and all else from Kind::buffers. The destructor waits for what was sent.
  Ports(comm::Communicator* group, const ScheduleShape& shape, const Buffers& buffers, std::size_t border_bytes,
        Memory& memory);

  /// How the stages of this group start their messages.
  Order order() const;

  /// Starts a message of a program. All stages execute programs of the same lists, one after another. The trace counts it as
  /// `send` or `receive`.
  void start(const Call& call);
  /// Waits until the border has been received into this place, or until what was sent from there may be overwritten. Only
  /// what is enqueued from now on comes after that (comm::Request).
  Span<std::byte> use(const Place& place);

 private:
  struct Buffer {
    Span<std::byte> memory;
    comm::Request request;
  };
  Buffer& at(const Place& place);

  comm::Communicator* group_;
  ScheduleShape shape_;
  std::array<std::vector<std::vector<Buffer>>, 2> received_;  // by kind (0: activations) and part of the stage
  std::array<std::vector<Buffer>, 2> sent_;                   // by kind
  std::array<std::vector<Buffer>, 2> received_skips_, sent_skips_;
};

}  // namespace shoal::pipeline
