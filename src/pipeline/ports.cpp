// SPDX-License-Identifier: Apache-2.0
#include "shoal/pipeline/ports.hpp"

#include <memory>
#include <string>
#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"

namespace shoal::pipeline {

namespace {

using enum Action::Kind;

std::size_t index_of(Action::Kind kind) { return kind == forward ? 0 : 1; }

/// A message of the group, with words for reports about hangs.
class Message final : public comm::Operation {
 public:
  Message(comm::Communicator& group, const Call& call, Span<std::byte> memory, int tag)
      : group_(group), call_(call), memory_(memory), tag_(tag) {}

  bool advance() override {
    if (std::exchange(started_, true)) return message_.test();
    message_ = start();
    return group_.queued() && message_.test();
  }
  std::string_view name() const override { return call_.sends ? "send" : "receive"; }
  std::string in_words() const override {
    return text(name(), " of ", words_of(call_.border), call_.sends ? " to" : " from", " stage ", call_.other);
  }
  std::string describe() const override { return text(in_words(), ", ", memory_.size(), " bytes"); }

 protected:
  /// The library that carries messages of the host waits for the caller's queue itself.
  std::optional<device::Queue> queue() const override { return group_.queued() ? comm::Operation::queue() : std::nullopt; }
  bool whole_at_start() const override { return group_.queued(); }

 private:
  /// A queued group has no messages but those of exchange().
  comm::Request start() {
    if (!group_.queued()) {
      return call_.sends ? group_.send(memory_, call_.other, tag_) : group_.receive(memory_, call_.other, tag_);
    }
    return call_.sends ? group_.exchange({{call_.other, memory_}}, {}, tag_)
                       : group_.exchange({}, {{call_.other, memory_}}, tag_);
  }

  comm::Communicator& group_;
  Call call_;
  Span<std::byte> memory_;
  int tag_;
  bool started_ = false;
  comm::Request message_;
};

}  // namespace

Ports::Ports(comm::Communicator* group, const ScheduleShape& shape, const Buffers& buffers, std::size_t border_bytes,
             Memory& memory)
    : group_(group), shape_(shape) {
  require(memory.counting() || shape.stages == 1 ||
              (group != nullptr && group->size() == shape.stages && group->rank() == shape.stage),
          "stage ", shape.stage, " of ", shape.stages, " in another group of ranks");
  const auto use = shape.stages > 1 ? shoal::Use::messages : shoal::Use::kernels;
  const auto take = [&](std::vector<Buffer>& into, std::size_t count, Kind kind, const char* label) {
    for (std::size_t i = 0; i < count; ++i) into.push_back({memory.take<std::byte>(kind, border_bytes, label, use), {}});
  };
  for (const std::size_t count : buffers.activations) {
    take(received_[0].emplace_back(), count, Kind::activations, "activations of the part before");
  }
  for (const std::size_t count : buffers.gradients) {
    take(received_[1].emplace_back(), count, Kind::buffers, "gradients of the part behind");
  }
  take(sent_[0], buffers.sent_activations, Kind::buffers, "activations that are sent");
  take(sent_[1], buffers.sent_gradients, Kind::buffers, "gradients that are sent");
  const char* const label = "skip connection";
  take(received_skips_[0], buffers.skip.activations, Kind::activations, label);
  take(received_skips_[1], buffers.skip.gradients, Kind::buffers, label);
  take(sent_skips_[0], buffers.skip.sent_activations, Kind::buffers, label);
  take(sent_skips_[1], buffers.skip.sent_gradients, Kind::buffers, label);
}

Order Ports::order() const { return group_ != nullptr && group_->queued() ? Order::one_by_one : Order::early; }

Ports::Buffer& Ports::at(const Place& place) {
  if (place.skip) return (place.sent ? sent_skips_ : received_skips_)[index_of(place.kind)].at(place.buffer);
  auto& buffers = place.sent ? sent_[index_of(place.kind)] : received_[index_of(place.kind)].at(place.part);
  return buffers.at(place.buffer);
}

void Ports::start(const Call& call) {
  Buffer& buffer = at(call.place);
  const trace::OnBehalfOf no_unit(-1);
  buffer.request =
      comm::Request(std::make_shared<Message>(*group_, call, buffer.memory, tag_of(call.border, parts_of_model(shape_))));
  buffer.request.label(-1, 0);
}

Span<std::byte> Ports::use(const Place& place) {
  Buffer& buffer = at(place);
  buffer.request.wait();
  return buffer.memory;
}

}  // namespace shoal::pipeline
