// SPDX-License-Identifier: Apache-2.0
// The synthetic text: a Markov chain of order 1. Its entropy rate is known, so the log can show the best possible loss
// beside the loss.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "shoal/data/vocabulary.hpp"

namespace shoal::data {

/// Each symbol has up to five likely successors with weights 1, 1/2, ... 1/5; low symbols are chosen more often than high
/// ones. In 4 % of the steps the next symbol is any symbol, with equal probability. Probabilities are whole multiples of
/// 2^-32, so that one 32-bit number chooses a step exactly.
class MarkovChain {
 public:
  /// symbols: 2 to 2^20.
  MarkovChain(std::size_t symbols, std::uint64_t seed);

  /// The first n symbols of the text; the same on every rank.
  std::vector<std::int32_t> draw(std::size_t n) const;
  double probability(std::size_t from, std::size_t to) const;
  /// Stationary distribution: the relative frequency of each symbol in a long text.
  std::vector<double> stationary() const;
  /// Entropy rate in nats per symbol: the sum over symbols of their frequency times the entropy of their successors.
  double entropy_rate() const;
  /// Printable symbols: space, letters by frequency, newline, capitals, digits, punctuation; "<97>" for the others.
  Vocabulary vocabulary() const;

 private:
  static constexpr std::size_t most_successors = 5;
  struct Row {
    std::array<std::uint32_t, most_successors> successor{};
    std::array<std::uint32_t, most_successors> below{};  ///< random numbers below[k-1] .. below[k] - 1 choose successor k
  };
  Row make_row(std::size_t symbol) const;
  double weight(const Row& row, std::size_t k) const;  ///< probability of successor k, without the background

  std::size_t symbols_, successors_;
  std::uint64_t key_;
  std::uint32_t background_;  ///< probability of each symbol apart from its weight as a likely successor, x 2^32
  std::vector<Row> rows_;
};

}  // namespace shoal::data
