// SPDX-License-Identifier: Apache-2.0
// Compares the frequencies in the chain's text with its probabilities, and its entropy rate with the text's entropy.
#include "data/markov.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "shoal/base/error.hpp"

namespace of_markov_test {

using shoal::data::MarkovChain;

double surprise(double p) { return p == 0 ? 0 : -p * std::log(p); }

TEST(Markov, RowsAreDistributions) {
  for (const std::size_t symbols : {2U, 3U, 5U, 64U, 300U}) {
    const MarkovChain chain(symbols, 7);
    for (std::size_t i = 0; i < symbols; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < symbols; ++j) sum += chain.probability(i, j);
      EXPECT_EQ(sum, 1.0) << symbols << " symbols, row " << i;  // multiples of 2^-32: the sum is exact
    }
  }
}

TEST(Markov, EntropyRateIsThatOfTheFullMatrix) {
  const std::size_t symbols = 40;
  const MarkovChain chain(symbols, 3);
  const std::vector<double> share = chain.stationary();
  EXPECT_NEAR(std::accumulate(share.begin(), share.end(), 0.0), 1.0, 1e-12);
  double rate = 0;
  for (std::size_t j = 0; j < symbols; ++j) {
    double inflow = 0;
    for (std::size_t i = 0; i < symbols; ++i) {
      inflow += share[i] * chain.probability(i, j);
      rate += share[j] * surprise(chain.probability(j, i));
    }
    EXPECT_NEAR(inflow, share[j], 1e-13);
  }
  EXPECT_NEAR(chain.entropy_rate(), rate, 1e-12);
}

TEST(Markov, TheTextsBigramsApproachTheEntropyRate) {
  const std::size_t symbols = 64, n = std::size_t{1} << 20U;
  const MarkovChain chain(symbols, 1);
  const std::vector<std::int32_t> text = chain.draw(n);
  std::vector<double> pairs(symbols * symbols), firsts(symbols);
  double surprise_of_text = 0;
  for (std::size_t t = 1; t < n; ++t) {
    const auto a = static_cast<std::size_t>(text[t - 1]), b = static_cast<std::size_t>(text[t]);
    pairs[a * symbols + b] += 1;
    firsts[a] += 1;
    surprise_of_text -= std::log(chain.probability(a, b));
  }
  double conditional = 0;
  for (std::size_t a = 0; a < symbols; ++a) {
    for (std::size_t b = 0; b < symbols; ++b) {
      if (firsts[a] > 0)
        conditional += firsts[a] / static_cast<double>(n - 1) * surprise(pairs[a * symbols + b] / firsts[a]);
    }
  }
  // The entropy of counted pairs is too small by about (cells - rows) / 2n = 0.002. The mean of -log(probability) over the
  // text has a standard error of sigma / sqrt(n) = 0.0015.
  EXPECT_NEAR(conditional, chain.entropy_rate(), 0.008);
  EXPECT_NEAR(surprise_of_text / static_cast<double>(n - 1), chain.entropy_rate(), 0.006);
}

TEST(Markov, IsWorthLearning) {
  const MarkovChain chain(64, 1);
  double unigram = 0;
  for (const double p : chain.stationary()) unigram += surprise(p);
  EXPECT_LT(chain.entropy_rate(), unigram - 1.0);
  EXPECT_LT(unigram, std::log(64.0) - 0.2);
}

TEST(Markov, DependsOnTheSeedAlone) {
  const auto text = [](std::uint64_t seed, std::size_t n) { return MarkovChain(64, seed).draw(n); };
  const std::vector<std::int32_t> whole = text(5, 1000), part = text(5, 77);
  EXPECT_EQ(whole, text(5, 1000));
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin()));
  EXPECT_NE(whole, text(6, 1000));
}

TEST(Markov, EverySymbolIsPrintedInItsOwnWay) {
  for (const std::size_t symbols : {64U, 96U, 300U}) {
    const shoal::data::Vocabulary vocabulary = MarkovChain(symbols, 1).vocabulary();
    ASSERT_EQ(vocabulary.size(), symbols);
    EXPECT_EQ(std::set<std::string>(vocabulary.begin(), vocabulary.end()).size(), symbols);
    for (const std::string& token : vocabulary) EXPECT_FALSE(token.empty());
  }
}

TEST(Markov, OneSymbolIsRefused) {
  EXPECT_THAT([] { MarkovChain(1, 1); },
              testing::ThrowsMessage<shoal::Error>(testing::HasSubstr("model.vocab_size = 1: the synthetic text has 2")));
}

}  // namespace of_markov_test
