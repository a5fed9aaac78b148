// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/quantize.hpp"

#include <limits>

#include "quantize_cases.hpp"

namespace shoal::kernels::test {
namespace of_quantize_test {

TEST(Quantize, NoNumberComesOfNaNAndInfinity) {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const QuantFormat& format : formats()) {
    SCOPED_TRACE(name_of(format));
    for (const float bad : {inf, -inf, nan, -nan}) {
      for (const std::size_t place : {0U, 1U, 299U}) {
        std::vector<float> x = gradient_like(300, 3);
        x[place] = bad;
        const Bytes bytes = quantized(format, x);
        const auto y = dequantized(format, x.size(), bytes);
        const auto half = dequantized<f16>(format, x.size(), bytes);
        std::vector<float> sums(x.size(), 1.0F);
        dequantize_add(format, x.size(), bytes.data(), sums.data());
        for (std::size_t i = 0; i < x.size(); ++i) {
          const bool in_block = i / format.block == place / format.block;
          ASSERT_EQ(std::isnan(y[i]), in_block) << i;
          ASSERT_EQ(std::isnan(static_cast<float>(half[i])), in_block) << i;
          ASSERT_EQ(std::isnan(sums[i]), in_block) << i;
        }
        const auto passed_on = dequantized(format, y.size(), quantized(format, y));
        for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(std::isnan(passed_on[i]), std::isnan(y[i])) << i;
      }
    }
  }
}

TEST(Quantize, SumsOfTermsAreTheSeparateStepsBitByBit) {
  for (const QuantFormat& format : formats()) {
    for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{300}, std::size_t{40'001}}) {
      SCOPED_TRACE(text(name_of(format), ", ", n));
      QuantFormat other = format;
      if (format.block % 2 == 0) other.bits = 12 - format.bits;
      const Bytes a = quantized(format, gradient_like(n, 1)), b = quantized(other, gradient_like(n, 2));
      const auto own = numbers<bf16>(n, 3);
      std::vector<float> wide(own.begin(), own.end()), sums(n);
      dequantize(format, DType::f32, n, a.data(), sums.data());
      for (std::size_t i = 0; i < n; ++i) sums[i] += wide[i];
      dequantize_add(other, n, b.data(), sums.data());

      const QuantTerm terms[] = {QuantTerm::codes(format.bits, a.data()), QuantTerm::of(DType::bf16, own.data()),
                                 QuantTerm::codes(other.bits, b.data())};
      std::vector<float> fused(n);
      dequantize(format, n, terms, DType::f32, fused.data());
      EXPECT_TRUE(same_bits(fused, sums));
      Bytes bytes(quantized_bytes(n, format));
      quantize(format, n, terms, nullptr, bytes.data());
      EXPECT_EQ(bytes, quantized(format, sums));

      std::vector<float> residual = numbers(n, 4, -0.1F, 0.1F);
      for (std::size_t i = 0; i < n; ++i) sums[i] += residual[i];
      quantize(format, n, terms, residual.data(), bytes.data());
      EXPECT_EQ(bytes, quantized(format, sums));
      const auto sent = dequantized(format, n, bytes);
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(residual[i], sums[i] - sent[i]) << i;
    }
  }
}

/// Sums of the codes of `others` regions one after another, and of own values before, among or behind them.
void expect_sums_are_the_separate_steps(std::size_t others, const std::vector<std::size_t>& places) {
  constexpr std::size_t n = 700;
  for (const QuantFormat& format : {QuantFormat{8, 256, Rounding::accurate}, QuantFormat{4, 64, Rounding::deepspeed}}) {
    for (const std::size_t before : places) {
      SCOPED_TRACE(text(name_of(format), ", ", before));
      const std::size_t bytes = quantized_bytes(n, format);
      Bytes regions(others * bytes);
      const auto own = numbers<bf16>(n, 3);
      std::vector<QuantTerm> terms;
      std::vector<float> sums(n), sum(n);
      for (std::size_t t = 0; t <= others; ++t) {
        if (t == before) {
          terms.push_back(QuantTerm::of(DType::bf16, own.data()));
          for (std::size_t i = 0; i < n; ++i) sums[i] = t == 0 ? float(own[i]) : sums[i] + float(own[i]);
        }
        if (t == others) break;
        std::byte* const region = regions.data() + t * bytes;
        quantize(format, DType::f32, n, gradient_like(n, t).data(), region);
        terms.push_back(QuantTerm::codes(format.bits, region));
        if (terms.size() == 1) {
          dequantize(format, DType::f32, n, region, sums.data());
        } else {
          dequantize_add(format, n, region, sums.data());
        }
      }
      dequantize(format, n, terms, DType::f32, sum.data());
      EXPECT_TRUE(same_bits(sum, sums));
      Bytes codes(bytes);
      quantize(format, n, terms, nullptr, codes.data());
      EXPECT_EQ(codes, quantized(format, sums));
    }
  }
}

/// More terms than a kernel on a GPU can capture one by one: those of many nodes, and a node's own.
TEST(Quantize, SumsOfManyTermsAreTheSeparateStepsBitByBit) { expect_sums_are_the_separate_steps(300, {0, 1, 77, 300}); }

/// The same with few enough terms for tools under which kernels are slow.
TEST(Quantize, SumsOfTwentyTermsAreTheSeparateStepsBitByBit) { expect_sums_are_the_separate_steps(19, {0, 1, 7, 19}); }

TEST(Quantize, AResidualOutlivesOverflow) {
  for (const QuantFormat& format : formats()) {
    SCOPED_TRACE(name_of(format));
    std::vector<float> x = gradient_like(600, 1);
    x[10] = std::numeric_limits<float>::infinity();
    const std::vector<float> before = numbers(x.size(), 2);
    std::vector<float> residual = before;
    const QuantTerm term = QuantTerm::of(DType::f32, x.data());
    Bytes bytes(quantized_bytes(x.size(), format));
    quantize(format, x.size(), {&term, 1}, residual.data(), bytes.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_TRUE(std::isfinite(residual[i])) << i;
      if (i / format.block == 10 / format.block) {
        ASSERT_EQ(residual[i], before[i]) << i;
      }
    }
  }
}

TEST(Quantize, ZeroStaysZero) {
  for (const QuantFormat& format : formats()) {
    SCOPED_TRACE(name_of(format));
    std::vector<float> x = gradient_like(1000, 1);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (i % 3 == 0 || i > 500) x[i] = i % 2 == 0 ? 0.0F : -0.0F;
    }
    const auto y = dequantized(format, x.size(), quantized(format, x));
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x[i] == 0.0F) {
        ASSERT_EQ(y[i], 0.0F) << i;
      }
    }
  }
}

TEST(Quantize, AnyMagnitudeIsKept) {
  for (const QuantFormat& format : formats()) {
    SCOPED_TRACE(name_of(format));
    for (const int exponent : {-149, -126, -110, -99, -60, 0, 60, 120, 126}) {
      std::vector<float> x = gradient_like(256, 1);
      float largest = 0.0F;
      for (const float v : x) largest = std::max(largest, std::abs(v));
      for (float& v : x) v = std::ldexp(v / largest, exponent);
      const auto y = dequantized(format, x.size(), quantized(format, x));
      // A step of INT4 is at most 31/192 of the largest magnitude, or 1/8 for DeepSpeed's. The least scale is 2^-100 / 32.
      const double bound = 0.25 * std::ldexp(1.0, exponent) + 0x1p-100;
      for (std::size_t i = 0; i < x.size(); ++i) ASSERT_LE(std::abs(double(y[i]) - double(x[i])), bound) << exponent;
    }
  }
}

TEST(Quantize, DoesNotDependOnThreads) {
  for (const QuantFormat& format : formats()) {
    const std::vector<float> x = gradient_like(100'003, 1);
    expect_independent_of_threads<std::byte>([&] { return quantized(format, x); });
    const Bytes bytes = quantized(format, x);
    expect_independent_of_threads<float>([&] { return dequantized(format, x.size(), bytes); });
    expect_independent_of_threads<QuantError>([&] { return error_parts(format, x, bytes); });
  }
}

TEST(Quantize, TheErrorIsThatOfTheValues) {
  for (const QuantFormat& format : formats()) {
    const auto x = numbers<bf16>(1001, 1);
    const Bytes bytes = quantized(format, x);
    const auto y = dequantized(format, x.size(), bytes);
    double values = 0.0, errors = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      values += double(x[i]) * double(x[i]);
      errors += (double(x[i]) - double(y[i])) * (double(x[i]) - double(y[i]));
    }
    const QuantError got = error_of(format, x, bytes);
    EXPECT_NEAR(got.values, values, 1e-12 * values);
    EXPECT_NEAR(got.errors, errors, 1e-5 * errors);  // differences are computed in float
  }
}

TEST(Quantize, PartsOfTheErrorAreSumsOverEvery64thBlock) {
  for (const QuantFormat& format : formats()) {
    for (const std::size_t blocks : {std::size_t{3}, std::size_t{64}, std::size_t{130}}) {
      SCOPED_TRACE(text(name_of(format), ", ", blocks));
      const std::vector<float> x = gradient_like(blocks * format.block - format.block / 2, 1);
      std::vector<QuantError> want(quant_error_parts, {2.0, 3.0}), got = want;
      for (std::size_t b = 0; b < blocks; ++b) {
        const auto begin = x.begin() + static_cast<std::ptrdiff_t>(b * format.block);
        const std::vector<float> block(begin, b + 1 < blocks ? begin + static_cast<std::ptrdiff_t>(format.block) : x.end());
        want[b % 64] += error_parts(format, block, quantized(format, block))[0];
      }
      const Bytes bytes = quantized(format, x);
      add_quantization_error(format, DType::f32, x.size(), x.data(), bytes.data(), got.data());
      EXPECT_TRUE(same_bits(got, want));
    }
  }
}

TEST(QuantFormat, BytesAreCodesAndAScaleABlock) {
  EXPECT_EQ(quantized_bytes(0, {8, 256}), 0U);
  EXPECT_EQ(quantized_bytes(1, {8, 256}), 5U);
  EXPECT_EQ(quantized_bytes(512, {8, 256}), 512U + 8U);
  EXPECT_EQ(quantized_bytes(513, {4, 256}), 257U + 12U);
  for (const QuantFormat& format : formats()) {  // and no more are written
    for (const std::size_t n : sizes) {
      const auto x = numbers(n, 1);
      Bytes bytes(quantized_bytes(n, format) + 8, std::byte{0x5a});
      quantize(format, DType::f32, n, x.data(), bytes.data());
      for (std::size_t i = bytes.size() - 8; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], std::byte{0x5a}) << name_of(format);
    }
  }
}

TEST(QuantFormat, WhatCannotBeIsRefused) {
  EXPECT_EQ(problem_of({4, 33}), "INT4 packs two elements in a byte: a quantization block of 33 is odd; nearest: 32, 34");
  EXPECT_EQ(problem_of({4, 1}), "INT4 packs two elements in a byte: a quantization block of 1 is odd; nearest: 2");
  EXPECT_EQ(problem_of({2, 32}), "quantization to 2 bits; allowed: 8, 4");
  EXPECT_EQ(problem_of({8, 0}), "a quantization block of 0 elements; allowed: 1 to 16384");
  EXPECT_EQ(problem_of({8, 16385}), "a quantization block of 16385 elements; allowed: 1 to 16384");
  EXPECT_EQ(problem_of({8, 33}), "");
  std::vector<float> x(10);
  Bytes out(100);
  EXPECT_THROW(quantize({4, 33}, DType::f32, x.size(), x.data(), out.data()), Error);
}

}  // namespace of_quantize_test
}  // namespace shoal::kernels::test
