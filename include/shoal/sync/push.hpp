// SPDX-License-Identifier: Apache-2.0
// Stochastic gradient push (Assran et al. 2019, arXiv 1811.10792): each node sends half of its parameters to one neighbour
// and adds the half that it receives from another. As every node sends to one and receives from one, the push-sum weights
// stay 1 and are not sent.
//
// Overlapped, an exchange runs during the next step and is applied after it: x += (received - sent) / 2, where x has made a
// local step since it was sent. So each exchange takes effect one step late, no part of a local step is lost, and the mean
// over the nodes is kept as without overlap: the paper's overlapped form with a delay of one.
#pragma once

#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/base/state.hpp"
#include "shoal/comm/communicator.hpp"
#include "shoal/model/unit.hpp"
#include "shoal/sync/sub_shards.hpp"

namespace shoal::sync {

class Push {
 public:
  /// sub_shards must outlive this.
  Push(const SubShards& sub_shards, const NodeGroups& groups, bool overlap, Memory& memory);
  Push(const Push&) = delete;
  Push& operator=(const Push&) = delete;

  /// Collective over all nodes: sends to the node whose number is `hop` higher and receives from the one whose number is
  /// `hop` lower. Without overlap, the kernels that average this rank's shards with the received ones are enqueued then.
  void exchange(int hop);
  /// With overlap: waits for the exchange in flight, if there is one, and applies it.
  void finish();

  /// With overlap, for checkpoints: /push/sent/NAME and /push/received/NAME of the exchange in flight, for which it waits.
  /// If there is none, their contents have no meaning.
  std::vector<NamedSlice> slices(const std::vector<model::UnitLayout>& units);
  bool in_flight() const { return in_flight_; }
  /// Continues with the exchange whose slices() were read from a checkpoint.
  void restore() { in_flight_ = true; }

 private:
  void exchange_piecewise(int to, int from);
  void start(int to, int from);

  const SubShards* sub_shards_;
  NodeGroups groups_;
  bool overlap_, in_flight_ = false;
  std::vector<Span<float>> sent_, received_;  // overlapped: by unit; otherwise only received_, of two parts
  comm::Request request_;                     // overlapped
};

}  // namespace shoal::sync
