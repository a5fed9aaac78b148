// SPDX-License-Identifier: Apache-2.0
// Stochastic gradient push (Assran et al. 2019, arXiv 1811.10792): a node sends half of its parameters to one neighbour and
// adds the half that comes from another. Every node has one of each, so the push-sum weights stay 1 and are not sent.
//
// Overlapped, an exchange goes on during the next step and is taken in after it: x += (received - sent) / 2, where x has
// moved by a local step since it was sent. So each exchange reaches its node one step late, no part of a local step is lost,
// and the mean over the nodes is kept as without overlap: the paper's overlapped form with a delay of one.
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
  /// shares must outlive this.
  Push(const SubShards& sub_shards, const NodeGroups& groups, bool overlap, Memory& memory);
  Push(const Push&) = delete;
  Push& operator=(const Push&) = delete;

  /// With the nodes `hop` places after and before, by all nodes. Not overlapped: this rank's shards are mixed when it
  /// returns.
  void exchange(int hop);
  /// Overlapped: waits for the exchange under way, if there is one, and takes it in.
  void finish();

  /// Overlapped, for checkpoints: /push/sent/NAME and /push/received/NAME of an exchange under way, which has arrived when
  /// this returns; without one whatever is there.
  std::vector<NamedSlice> slices(const std::vector<model::UnitLayout>& units);
  bool in_flight() const { return in_flight_; }
  /// What slices() named was read back.
  void restore() { in_flight_ = true; }

 private:
  void exchange_piecewise(int to, int from);
  void start(int to, int from);

  const SubShards* sub_shards_;
  NodeGroups groups_;
  bool overlap_, in_flight_ = false;
  std::vector<Span<float>> sent_, received_;  // overlapped: by unit; otherwise two pieces, received_ only
  std::vector<comm::Request> requests_;
};

}  // namespace shoal::sync
