// SPDX-License-Identifier: Apache-2.0
// The embedded text: a Markov chain of order 1 whose entropy rate is known, so that a log can show the loss beside its
// floor.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "shoal/data/vocabulary.hpp"

namespace shoal::data {

/// Each symbol has up to five likely successors (weights 1, 1/2, ... 1/5, low symbols more often chosen than high ones); 4 %
/// of all steps go to any symbol. Probabilities are whole multiples of 2^-32, so one 32-bit number draws a step exactly.
class MarkovChain {
 public:
  /// symbols: 2 to 2^24.
  MarkovChain(std::size_t symbols, std::uint64_t seed);

  /// The first n symbols of the chain's text; the same on every rank.
  std::vector<std::int32_t> draw(std::size_t n) const;
  double probability(std::size_t from, std::size_t to) const;
  /// How often each symbol occurs in the long run.
  std::vector<double> stationary() const;
  /// Nats per symbol, given all before it: the sum over symbols of stationary x entropy of the successors.
  double entropy_rate() const;
  /// Printable: space, letters by frequency, newline, capitals, digits, punctuation; beyond those "<97>".
  Vocabulary vocabulary() const;

 private:
  static constexpr std::size_t most_successors = 5;
  struct Row {
    std::array<std::uint32_t, most_successors> successor{};
    std::array<std::uint32_t, most_successors> below{};  ///< successor k is drawn by numbers below[k-1] .. below[k] - 1
  };
  Row make_row(std::size_t symbol) const;
  double weight(const Row& row, std::size_t k) const;  ///< probability of successor k, without the background

  std::size_t symbols_, successors_;
  std::uint64_t key_;
  std::uint32_t background_;  ///< probability of any one symbol, x 2^32, added to that of the likely ones
  std::vector<Row> rows_;
};

}  // namespace shoal::data
