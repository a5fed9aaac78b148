// SPDX-License-Identifier: Apache-2.0
// Simulates ranks within this process. A test decides when, and in which order, messages between them arrive.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/comm/communicator.hpp"

namespace shoal::comm {

/// Matches sends with receives like MPI, by ranks and tag, in the order of the calls on each side. Then messages may arrive
/// in any order. The data of a send are read when the message arrives.
class Network {
 public:
  explicit Network(int ranks_per_node = 1) : ranks_per_node_(ranks_per_node) {}

  /// The communicator of the rank with index `place` in the group.
  std::unique_ptr<Communicator> member(const std::vector<int>& group, int place) {
    return std::make_unique<Member>(*this, group, place);
  }

  /// One end of a message.
  class Message final : public Operation {
   public:
    Message(bool sends, std::vector<int> group, int from, int to, int tag, Span<std::byte> data)
        : sends_(sends), group_(std::move(group)), from_(from), to_(to), tag_(tag), data_(data) {}
    bool advance() override { return arrived_; }
    std::string_view name() const override { return sends_ ? "send" : "receive"; }
    std::string describe() const override { return text(name(), " from ", from(), " to ", to()); }
    int from() const { return group_[static_cast<std::size_t>(from_)]; }
    int to() const { return group_[static_cast<std::size_t>(to_)]; }

   protected:
    std::optional<device::Queue> queue() const override { return std::nullopt; }

   private:
    friend class Network;
    bool matches(const Message& other) const {
      return sends_ != other.sends_ && group_ == other.group_ && from_ == other.from_ && to_ == other.to_ &&
             tag_ == other.tag_;
    }
    bool sends_;
    std::vector<int> group_;
    int from_, to_, tag_;  // indices in group_
    Span<std::byte> data_;
    bool arrived_ = false;
  };

  /// (send, receive)
  using Pair = std::pair<std::shared_ptr<Message>, std::shared_ptr<Message>>;

  /// Messages whose send and receive are both posted.
  const std::vector<Pair>& ready() const { return ready_; }
  void deliver(std::size_t which) {
    const auto [send, receive] = ready_[which];
    ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(which));
    require(send->data_.size() == receive->data_.size(), send->describe(), ": ", send->data_.size(), " bytes for ",
            receive->data_.size());
    std::copy(send->data_.begin(), send->data_.end(), receive->data_.begin());
    send->arrived_ = receive->arrived_ = true;
  }

 private:
  class Member final : public Communicator {
   public:
    Member(Network& network, std::vector<int> group, int place)
        : network_(network), group_(std::move(group)), place_(place) {}
    int rank() const override { return place_; }
    int size() const override { return static_cast<int>(group_.size()); }
    const std::string& name() const override { return name_; }
    bool same_node(int r) const override { return node_of(r) == node_of(place_); }
    Request send(Span<const std::byte> data, int to, int tag) override {
      const Span<std::byte> read = {const_cast<std::byte*>(data.data()), data.size()};  // only deliver() reads it
      return network_.post(std::make_shared<Message>(true, group_, place_, to, tag, read));
    }
    Request receive(Span<std::byte> data, int from, int tag) override {
      return network_.post(std::make_shared<Message>(false, group_, from, place_, tag, data));
    }
    int next_tag() override { return next_tag_++; }

    Request exchange(const std::vector<Outgoing>& /*outgoing*/, const std::vector<Incoming>& /*incoming*/,
                     int /*tag*/) override {
      return no_collective();
    }
    Request all_gather(Span<const std::byte> /*shard*/, Span<std::byte> /*all*/) override { return no_collective(); }
    Request all_gather_parts(Span<std::byte> /*all*/, const std::vector<std::size_t>& /*parts*/) override {
      return no_collective();
    }
    Request reduce_scatter(Span<const std::byte> /*data*/, const std::vector<std::size_t>& /*parts*/,
                           Span<std::byte> /*own*/) override {
      return no_collective();
    }
    Request broadcast(Span<std::byte> /*data*/, int /*root*/) override { return no_collective(); }
    Request barrier() override { return no_collective(); }
    Request all_reduce(Span<float> /*data*/, Reduce /*how*/) override { return no_collective(); }
    Request all_reduce(Span<double> /*data*/, Reduce /*how*/) override { return no_collective(); }
    Request all_reduce(Span<std::int64_t> /*data*/, Reduce /*how*/) override { return no_collective(); }
    Request all_reduce(Span<std::uint64_t> /*data*/, Reduce /*how*/) override { return no_collective(); }

   private:
    int node_of(int place) const { return group_[static_cast<std::size_t>(place)] / network_.ranks_per_node_; }
    static Request no_collective() { fail("this network carries messages alone"); }

    Network& network_;
    std::vector<int> group_;
    int place_;
    std::string name_ = "a network";
    int next_tag_ = 0;
  };

  Request post(const std::shared_ptr<Message>& message) {
    const auto partner =
        std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& earlier) { return earlier->matches(*message); });
    if (partner == waiting_.end()) {
      waiting_.push_back(message);
    } else {
      ready_.push_back(message->sends_ ? Pair{message, *partner} : Pair{*partner, message});
      waiting_.erase(partner);
    }
    return Request(message);
  }

  int ranks_per_node_;
  std::deque<std::shared_ptr<Message>> waiting_;  // for the other end
  std::vector<Pair> ready_;
};

/// Delivers messages among `ranks` ranks in random order. Those from one rank to another, chosen at random, are delivered
/// only if nothing else is left.
class Arrivals {
 public:
  Arrivals(Network& network, int ranks, std::mt19937& random)
      : network_(network), random_(random), late_from_(below(ranks)), late_to_(below(ranks)) {}

  void until_complete(std::vector<Request>& requests) {
    const auto move_on = [&] {
      bool complete = true;
      for (Request& request : requests) complete = request.test() && complete;
      return complete;
    };
    while (!move_on()) {
      require(!network_.ready().empty(), "every rank waits, and no message is under way");
      network_.deliver(next());
    }
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  std::size_t next() {
    std::vector<std::size_t> in_time;
    for (std::size_t i = 0; i < network_.ready().size(); ++i) {
      const Network::Message& message = *network_.ready()[i].first;
      if (message.from() != late_from_ || message.to() != late_to_) in_time.push_back(i);
    }
    return in_time.empty() ? random_() % network_.ready().size() : in_time[random_() % in_time.size()];
  }

  Network& network_;
  std::mt19937& random_;
  int late_from_, late_to_;
};

}  // namespace shoal::comm
