// SPDX-License-Identifier: Apache-2.0
// Times of a rank's operations if those of one sequence (Cost::sequence) follow each other. Each link of the rank serves one
// exchange after another, in the order in which they reach it. That is not the order of the starts: an operation may wait
// for the one before it in its sequence while a later operation of the other sequence proceeds. So the end of an operation
// is computed when somebody waits for it. By then all operations that started earlier are known.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <map>

#include "shoal/plan/collective_costs.hpp"

namespace shoal::plan {

class Sequences {
 public:
  /// Starts an operation, in the order of their numbers, at times that never decrease. after: the operation whose end this
  /// one waits for, or its own number.
  void start(std::size_t number, const Cost& cost, double from_s, std::size_t after);
  /// When the exchanges of an operation end. Once for each; whatever is started later, begins then or later.
  double end_of(std::size_t number);

 private:
  struct Exchange {
    std::size_t link = 0;
    double seconds = 0;
  };
  struct Operation {
    std::size_t number = 0, after = 0;
    std::array<Exchange, 2> exchanges{};
    double between_s = 0, ready_s = 0;
    std::size_t done = 0;  // exchanges
  };
  struct Sequenced {
    std::deque<Operation> operations;  // whose ends are not known; the first one has the turn
    double free_s = 0;
  };
  bool may_begin(const Operation& operation) const;
  void advance();

  std::array<Sequenced, sequences> all_;
  std::array<double, 2> link_free_s_{};
  std::map<std::size_t, double> ends_;  // that nobody has asked for
};

}  // namespace shoal::plan
