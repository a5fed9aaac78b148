// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/quantize.hpp"

#include <limits>

#include "kernel_test.hpp"
#include "model/oracle.hpp"
#include "quantize_reference.hpp"
#include "shoal/base/error.hpp"

namespace shoal::kernels::test {
namespace {

using Rounding = QuantRounding;

std::vector<QuantFormat> formats() {
  std::vector<QuantFormat> all;
  for (const Rounding rounding : {Rounding::accurate, Rounding::deepspeed}) {
    for (const int bits : {8, 4}) {
      for (const std::size_t block : {2U, 8U, 30U, 64U, 256U, 2000U}) all.push_back({bits, block, rounding});
    }
  }
  all.push_back({8, 33, Rounding::accurate});
  all.push_back({8, 33, Rounding::deepspeed});
  return all;
}

std::string name_of(const QuantFormat& f) {
  return text("INT", f.bits, " in blocks of ", f.block, f.rounding == Rounding::accurate ? "" : " as DeepSpeed");
}

using Bytes = std::vector<std::byte>;

template <typename T>
Bytes quantized(const QuantFormat& format, const std::vector<T>& x) {
  Bytes bytes(quantized_bytes(x.size(), format));
  quantize(format, dtype_of<T>, x.size(), x.data(), bytes.data());
  return bytes;
}
template <typename T = float>
std::vector<T> dequantized(const QuantFormat& format, std::size_t n, const Bytes& bytes) {
  std::vector<T> y(n);
  dequantize(format, dtype_of<T>, n, bytes.data(), y.data());
  return y;
}

int code_at(const QuantFormat& format, std::size_t n, const Bytes& bytes, std::size_t i) {
  const std::size_t scales = (n + format.block - 1) / format.block * sizeof(float);
  if (format.bits == 8) return static_cast<std::int8_t>(bytes[scales + i]);
  const auto both = static_cast<unsigned>(bytes[scales + i / 2]);
  const int code = static_cast<int>(i % 2 == 0 ? both >> 4U : both & 15U);
  return code < 8 ? code : code - 16;
}

ReferenceBlock reference(const QuantFormat& format, const std::vector<float>& x) {
  ReferenceBlock all;
  for (std::size_t begin = 0; begin < x.size(); begin += format.block) {
    const auto first = x.begin() + static_cast<std::ptrdiff_t>(begin);
    const std::vector<float> block(first, first + static_cast<std::ptrdiff_t>(std::min(format.block, x.size() - begin)));
    const ReferenceBlock one = format.rounding == Rounding::accurate ? accurate_reference(block, format.bits, format.block)
                                                                     : deepspeed_reference(block, format.bits);
    all.codes.insert(all.codes.end(), one.codes.begin(), one.codes.end());
    all.values.insert(all.values.end(), one.values.begin(), one.values.end());
  }
  return all;
}

/// Normal numbers, and a hundredth of them ten times as large.
std::vector<float> gradient_like(std::size_t n, std::uint64_t stream) {
  std::vector<float> x = numbers(n, stream, -1.0F, 1.0F);
  for (std::uint64_t more = 1; more < 6; ++more) {
    const auto others = numbers(n, stream + 1000 * more, -1.0F, 1.0F);
    for (std::size_t i = 0; i < n; ++i) x[i] += others[i];
  }
  for (std::size_t i = 37; i < n; i += 100) x[i] *= 10.0F;
  return x;
}

constexpr std::size_t sizes[] = {0, 1, 2, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1000, 16385, 40'001};

template <typename T>
class Quantize : public testing::Test {};
TYPED_TEST_SUITE(Quantize, StorageTypes);

TYPED_TEST(Quantize, IsTheReferenceCodeByCode) {
  for (const QuantFormat& format : formats()) {
    SCOPED_TRACE(name_of(format));
    for (const std::size_t n : sizes) {
      const auto floats = gradient_like(n, n);
      const std::vector<TypeParam> x(floats.begin(), floats.end());
      const Bytes bytes = quantized(format, x);
      const ReferenceBlock want = reference(format, {x.begin(), x.end()});
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(code_at(format, n, bytes, i), want.codes[i]) << i << " of " << n;
      std::vector<TypeParam> rounded(n);
      for (std::size_t i = 0; i < n; ++i) rounded[i] = TypeParam(want.values[i]);
      EXPECT_EQ(doubles(dequantized<TypeParam>(format, n, bytes)), doubles(rounded)) << n;
    }
  }
}

/// Twenty-four numbers of the oracle's case group_8, with what DeepSpeed's kernels make of them.
TEST(QuantizeAsDeepSpeed, MeetsItsCodesAndSteps) {
  const std::vector<float> x = {-0x1.83cp-3F, -0x1.6dp+0F,  0x1.e48p-2F, 0x1.66p-5F,   0x1.02p-4F,   0x1.318p+0F,
                                -0x1.c24p-6F, -0x1.224p+0F, -0x1.58p-4F, 0x1.d38p-3F,  -0x1.b44p-3F, -0x1.0f4p-2F,
                                0x1.efp-1F,   0x1.67cp+0F,  -0x1.e2p-3F, -0x1.0a8p-3F, 0x1.1fp+0F,   -0x1.4fcp+1F,
                                0x1.c08p-2F,  0x1.37p-2F,   -0x1.19p-1F, 0x1.bccp-2F,  0x1.b7p-3F,   -0x1.45cp+0F};
  const std::vector<int> four = {-1, -8, 3, 0, 0, 7, 0, -6, 0, 1, -1, -2, 6, 7, -1, -1, 3, -8, 1, 1, -2, 1, 1, -4};
  const std::vector<int> eight = {-17, -128, 42,  4,   6,  107,  -2, -102, -8,  21, -19, -24,
                                  88,  127,  -21, -12, 55, -128, 21, 15,   -27, 21, 10,  -62};
  const std::vector<int> packed = {248, 48, 7, 10, 1, 254, 103, 255, 56, 17, 225, 28};
  const std::vector<float> steps = {0.17822265625F, 0.1756591796875F, 0.327880859375F};
  const QuantFormat int4{4, 8, Rounding::deepspeed}, int8{8, 8, Rounding::deepspeed};
  const Bytes as4 = quantized(int4, x), as8 = quantized(int8, x);
  ASSERT_EQ(as4.size(), 12U + 12U);
  ASSERT_EQ(as8.size(), 12U + 24U);
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(code_at(int4, x.size(), as4, i), four[i]) << i;
    EXPECT_EQ(code_at(int8, x.size(), as8, i), eight[i]) << i;
  }
  for (std::size_t i = 0; i < packed.size(); ++i) EXPECT_EQ(static_cast<int>(as4[12 + i]), packed[i]) << i;
  std::vector<float> stored(3);
  std::memcpy(stored.data(), as4.data(), 12);
  EXPECT_EQ(stored, steps);
}

TEST(QuantizeAsDeepSpeed, MeetsTheOracleCodeByCode) {
  const auto file = shoal::test::shared_data("oracles/quantization/blockwise.h5");
  if (!shoal::test::is_there(file)) GTEST_SKIP();
  const model::test::Hdf5 oracle(file);
  const std::vector<std::pair<std::string, std::size_t>> cases = {
      {"normal", 256},     {"heavy_tailed", 256}, {"small", 256},       {"zeros", 64},
      {"zero_group", 64},  {"denormal", 64},      {"tiniest", 64},      {"one_outlier", 128},
      {"constant", 64},    {"largest", 64},       {"ties_int8", 256},   {"ties_int4", 16},
      {"odd_length", 128}, {"one_group", 640},    {"all_positive", 64}, {"group_8", 8}};
  for (const auto& [name, block] : cases) {
    const auto x = oracle.dataset<float>(name + "/input");
    for (const int bits : {8, 4}) {
      const std::string from = text(name, "/int", bits, "_symmetric/");
      SCOPED_TRACE(from);
      const QuantFormat format{bits, block, Rounding::deepspeed};
      const Bytes bytes = quantized(format, x);
      const auto codes = oracle.dataset<std::int32_t>(from + "codes");
      for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(code_at(format, x.size(), bytes, i), codes[i]) << i;
      auto steps = oracle.dataset<float>(from + "params");
      EXPECT_EQ(std::memcmp(steps.data(), bytes.data(), steps.size() * sizeof(float)), 0);
      if (bits == 4 && x.size() % 2 == 0) {
        const auto packed = oracle.dataset<std::int32_t>(from + "packed");
        for (std::size_t i = 0; i < packed.size(); ++i) {
          ASSERT_EQ(static_cast<std::int32_t>(bytes[steps.size() * sizeof(float) + i]), packed[i]) << i;
        }
      }
      EXPECT_EQ(dequantized(format, x.size(), bytes), oracle.dataset<float>(from + "dequantized_f32"));
      const auto half = dequantized<f16>(format, x.size(), bytes);
      EXPECT_EQ(std::vector<float>(half.begin(), half.end()), oracle.dataset<float>(from + "dequantized_f16_as_f32"));
      const auto bound = oracle.dataset<float>(from + "error_bound"), y = dequantized(format, x.size(), bytes);
      for (std::size_t i = 0; i < x.size(); ++i) ASSERT_LE(std::abs(y[i] - x[i]), bound[i]) << i;
    }
  }
}

/// A quarter's scale is n/32 of a power of two that is less than twice the block's largest magnitude m.
/// INT8: no less than the quarter's own largest magnitude; evenly spaced codes are off by half a step, or, at the end that
/// has a code less, a whole one.
/// INT4: off by half a 32nd, or up to 1/32 above a quarter of small numbers; codes 7 and 8 stand 31/192 apart, and where
/// one takes over from the other is a quarter of 1/192 off the middle.
TEST(QuantizeAccurately, ErrorsAreBounded) {
  for (const QuantFormat& format : formats()) {
    if (format.rounding != Rounding::accurate) continue;
    SCOPED_TRACE(name_of(format));
    const std::vector<float> x = gradient_like(10'007, 5);
    const std::vector<float> y = dequantized(format, x.size(), quantized(format, x));
    for (std::size_t begin = 0; begin < x.size(); begin += format.block) {
      const std::size_t end = std::min(x.size(), begin + format.block);
      const float power =
          power_of({x.begin() + static_cast<std::ptrdiff_t>(begin), x.begin() + static_cast<std::ptrdiff_t>(end)});
      for (std::size_t i = begin; i < end; ++i) {
        const std::size_t quarter = begin + (i - begin) / quarter_of(format.block) * quarter_of(format.block);
        const float most = extremum_of(x, {quarter, std::min(end, quarter + quarter_of(format.block))});
        const float scale = std::abs(most) + power / 32.0F;  // at most
        const bool same_side = std::signbit(most) == std::signbit(x[i]);
        const float bound = format.bits == 8 ? scale / (same_side ? 256.0F : 128.0F)
                                             : scale * (same_side ? 15.75F : 31.25F) / 192.0F + power / 64.0F;
        ASSERT_LE(std::abs(y[i] - x[i]), bound * (1.0F + 0x1p-20F)) << i;
      }
    }
  }
}

double relative_error(const QuantFormat& format, const std::vector<float>& x) {
  const Bytes bytes = quantized(format, x);
  const QuantError error = quantization_error(format, DType::f32, x.size(), x.data(), bytes.data());
  return std::sqrt(error.errors / error.values);
}

/// What the header promises.
TEST(QuantizeAccurately, Int4LosesMuchLessThanDeepSpeeds) {
  std::vector<float> normal(1U << 18U), heavy(normal.size());
  const auto a = numbers(normal.size(), 1, 0.0F, 1.0F), b = numbers(normal.size(), 2, 0.0F, 1.0F);
  std::vector<double> squares(normal.size(), 0.0);
  for (std::size_t i = 0; i < normal.size(); ++i) {
    normal[i] = std::sqrt(-2.0F * std::log(a[i])) * std::cos(6.2831853F * b[i]);
  }
  for (std::size_t i = 0; i < heavy.size(); ++i) {  // t: over the root of a mean of three squares
    double sum = 0.0;
    for (std::size_t k = 1; k <= 3; ++k) sum += std::pow(normal[(i + k * 70'001) % normal.size()], 2.0);
    heavy[i] = normal[i] / static_cast<float>(std::sqrt(sum / 3.0));
  }
  const auto ratio = [](std::size_t block, const std::vector<float>& x) {
    return relative_error({4, block, Rounding::accurate}, x) / relative_error({4, block, Rounding::deepspeed}, x);
  };
  EXPECT_NEAR(relative_error({4, 32, Rounding::accurate}, normal), 0.065, 0.001);
  EXPECT_NEAR(relative_error({4, 256, Rounding::accurate}, normal), 0.088, 0.001);
  EXPECT_LT(ratio(32, normal), 0.70);
  EXPECT_LT(ratio(256, normal), 0.79);
  EXPECT_LT(ratio(32, heavy), 0.50);
  EXPECT_LT(ratio(256, heavy), 0.55);
}

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
      // A step of INT4 is at most 31/192 of the largest magnitude, or 1/8 for DeepSpeed's; the floor is 2^-100 / 32.
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
    expect_independent_of_threads<double>([&] {
      const QuantError error = quantization_error(format, DType::f32, x.size(), x.data(), bytes.data());
      return std::vector<double>{error.values, error.errors};
    });
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
    const QuantError got = quantization_error(format, DType::bf16, x.size(), x.data(), bytes.data());
    EXPECT_NEAR(got.values, values, 1e-12 * values);
    EXPECT_NEAR(got.errors, errors, 1e-5 * errors);  // differences are made in float
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

}  // namespace
}  // namespace shoal::kernels::test
