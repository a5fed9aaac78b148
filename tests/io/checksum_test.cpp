// SPDX-License-Identifier: Apache-2.0
// Checksums are compared with those of another implementation of XXH3, and depend on which tensor holds which values.
// Every claim that two runs have the same bits is made with params_checksum().
#include <gtest/gtest.h>

#include "io/tensors.hpp"
#include "shoal/io/checkpoint.hpp"
#include "support/mpi_main.hpp"

namespace shoal::test {
namespace of_checksum_test {

constexpr std::size_t matrix = 40, bias = 7;  // neither is a multiple of the piece's 16 elements

/// A model of two layers, cut over all ranks. swapped: the matrices of the layers have each other's contents.
Tensors two_layers(bool swapped) {
  const int rank = world().all().rank(), ranks = world().all().size();
  Tensors tensors;
  const auto add = [&](const char* name, const std::vector<std::size_t>& shape, const auto& value) {
    const std::size_t elements = elements_of(shape);
    tensors.add(name, shape, part_of(elements, rank, ranks), false);
    const io::TensorSlice& slice = tensors.slices.back();
    for (std::size_t i = 0; i < slice.values.size(); ++i) slice.values[i] = value(slice.range.begin + i);
  };
  const auto rising = [](std::size_t i) { return static_cast<float>(i) / 2; };
  const auto falling = [](std::size_t i) { return 3 - static_cast<float>(i) / 2; };
  for (const bool first : {true, false}) {
    const char* const name =
        first ? "/parameters/transformer.h.0.attn.c_attn.weight" : "/parameters/transformer.h.1.attn.c_attn.weight";
    first != swapped ? add(name, {5, matrix / 5}, rising) : add(name, {5, matrix / 5}, falling);
  }
  add("/parameters/ln_f.bias", {bias}, [](std::size_t i) { return -static_cast<float>(i); });
  return tensors;
}

std::uint64_t checksum_of(const Tensors& tensors) { return io::params_checksum(world().all(), tensors.slices); }

/// Computed with Python's package xxhash. With H = xxh3_64, numbers as little-endian bytes and names without /parameters/:
///   C(tensor)       = the sum over k of H(elements 16 k to 16 k + 15, seed = k)
///   params_checksum = the sum over all tensors of H(C(tensor), seed = H(name)),  both modulo 2^64.
constexpr std::uint64_t checksum_of_rising = 0x74bb7804c628b478U, checksum_of_two_layers = 0x4841de0d76ae4322U;

TEST(ParamsChecksum, OfATensorIsThatOfAnotherImplementation) {
  std::vector<float> values(matrix);
  for (std::size_t i = 0; i < matrix; ++i) values[i] = static_cast<float>(i) / 2;
  EXPECT_EQ(io::checksum({"/x", {matrix}, {0, matrix}, values}), checksum_of_rising);
}

TEST(ParamsChecksum, OfParametersIsThatOfAnotherImplementation) {
  EXPECT_EQ(checksum_of(two_layers(false)), checksum_of_two_layers);
}

TEST(ParamsChecksum, OfParametersChangesIfTwoTensorsSwapTheirContents) {
  EXPECT_NE(checksum_of(two_layers(true)), checksum_of(two_layers(false)));
}

}  // namespace of_checksum_test
}  // namespace shoal::test
