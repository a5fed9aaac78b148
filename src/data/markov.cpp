// SPDX-License-Identifier: Apache-2.0
#include "data/markov.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "shoal/base/error.hpp"
#include "shoal/base/philox.hpp"

namespace shoal::data {

namespace {

/// "chain": the key differs from those of other random numbers with the same seed.
constexpr std::uint64_t chain_domain = 0x636861696e;
enum Purpose : std::uint32_t { choose_successors, draw_text };

constexpr double background_share = 0.04;
constexpr std::uint64_t one = std::uint64_t{1} << 32U;  ///< probability 1

double probability_of(std::uint64_t numbers) { return static_cast<double>(numbers) / static_cast<double>(one); }
double surprise(double p) { return -p * std::log(p); }

}  // namespace

MarkovChain::MarkovChain(std::size_t symbols, std::uint64_t seed)
    : symbols_(symbols), successors_(std::min(most_successors, symbols)), key_(seed ^ chain_domain), background_(0) {
  require_input(symbols >= 2 && symbols <= (std::size_t{1} << 20U), "model.vocab_size = ", symbols,
                ": the synthetic text has 2 to 1048576 symbols");
  background_ = static_cast<std::uint32_t>(background_share * static_cast<double>(one) / static_cast<double>(symbols));
  rows_.reserve(symbols);
  for (std::size_t symbol = 0; symbol < symbols; ++symbol) rows_.push_back(make_row(symbol));
}

MarkovChain::Row MarkovChain::make_row(std::size_t symbol) const {
  double weights = 0;
  for (std::size_t k = 0; k < successors_; ++k) weights += 1.0 / static_cast<double>(k + 1);
  const std::uint64_t likely = one - std::uint64_t{background_} * symbols_;
  Row row;
  double sum = 0;
  std::uint32_t attempt = 0;
  for (std::size_t k = 0; k < successors_;) {
    const double u = uniform(philox(key_, {static_cast<std::uint32_t>(symbol), attempt++, 0, choose_successors})[0]);
    const auto candidate = std::min(symbols_ - 1, static_cast<std::size_t>(u * u * static_cast<double>(symbols_)));
    const auto known = row.successor.begin() + static_cast<std::ptrdiff_t>(k);
    if (std::find(row.successor.begin(), known, candidate) != known) continue;
    sum += 1.0 / static_cast<double>(k + 1);
    row.successor[k] = static_cast<std::uint32_t>(candidate);
    row.below[k] = static_cast<std::uint32_t>(
        k + 1 == successors_ ? likely : static_cast<std::uint64_t>(sum / weights * static_cast<double>(likely)));
    ++k;
  }
  return row;
}

std::vector<std::int32_t> MarkovChain::draw(std::size_t n) const {
  std::vector<std::int32_t> text(n);
  std::size_t symbol = 0;
  Philox4 random{};
  for (std::size_t t = 0; t < n; ++t) {
    const std::uint64_t block = t / 4;
    if (t % 4 == 0) {
      random = philox(key_, {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32U), 0, draw_text});
    }
    const std::uint32_t number = random[t % 4];
    const Row& row = rows_[symbol];
    std::size_t k = 0;
    while (k < successors_ && number >= row.below[k]) ++k;
    symbol = k < successors_ ? row.successor[k] : (number - row.below[successors_ - 1]) / background_;
    text[t] = static_cast<std::int32_t>(symbol);
  }
  return text;
}

double MarkovChain::weight(const Row& row, std::size_t k) const {
  return probability_of(row.below[k] - (k == 0 ? 0 : row.below[k - 1]));
}

double MarkovChain::probability(std::size_t from, std::size_t to) const {
  double p = probability_of(background_);
  for (std::size_t k = 0; k < successors_; ++k) {
    if (rows_[from].successor[k] == to) p += weight(rows_[from], k);
  }
  return p;
}

/// Power iteration. Since 4 % of the steps go to any symbol, each iteration reduces the distance to the fixed point by 4 %
/// or more.
std::vector<double> MarkovChain::stationary() const {
  std::vector<double> share(symbols_, 1.0 / static_cast<double>(symbols_)), next(symbols_);
  double change = 1;
  for (int iteration = 0; change > 1e-14; ++iteration) {
    require(iteration < 2000, "the chain's stationary distribution is not found: change ", change);
    std::fill(next.begin(), next.end(), probability_of(background_));
    for (std::size_t i = 0; i < symbols_; ++i) {
      for (std::size_t k = 0; k < successors_; ++k) next[rows_[i].successor[k]] += share[i] * weight(rows_[i], k);
    }
    change = 0;
    for (std::size_t i = 0; i < symbols_; ++i) change += std::abs(next[i] - share[i]);
    share.swap(next);
  }
  return share;
}

double MarkovChain::entropy_rate() const {
  const std::vector<double> share = stationary();
  const double unlikely = static_cast<double>(symbols_ - successors_) * surprise(probability_of(background_));
  double rate = 0;
  for (std::size_t i = 0; i < symbols_; ++i) {
    double entropy = unlikely;
    for (std::size_t k = 0; k < successors_; ++k) {
      entropy += surprise(weight(rows_[i], k) + probability_of(background_));
    }
    rate += share[i] * entropy;
  }
  return rate;
}

Vocabulary MarkovChain::vocabulary() const {
  constexpr std::string_view printable =
      " etaoinshrdlcumwfgypbvkjxqz\nETAOINSHRDLCUMWFGYPBVKJXQZ0123456789.,;:!?'\"()[]{}<>+-*/=%$#@&_|~^`\\";
  Vocabulary vocabulary;
  vocabulary.reserve(symbols_);
  for (std::size_t symbol = 0; symbol < symbols_; ++symbol) {
    vocabulary.push_back(symbol < printable.size() ? std::string(1, printable[symbol]) : text("<", symbol, ">"));
  }
  return vocabulary;
}

}  // namespace shoal::data
