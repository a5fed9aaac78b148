// SPDX-License-Identifier: Apache-2.0
// Compares codes with a reference and with DeepSpeed's, and checks their errors.
#include <set>

#include "quantize_cases.hpp"
#include "quantize_reference.hpp"
#include "support/oracle.hpp"

namespace shoal::kernels::test {
namespace of_quantize_codes_test {

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

/// A GPU has a kernel for such blocks, if all arrays are aligned.
TYPED_TEST(Quantize, IsTheReferenceInLongBlocksAndAtAnyAddress) {
  for (const Rounding rounding : {Rounding::accurate, Rounding::deepspeed}) {
    for (const int bits : {8, 4}) {
      for (const std::size_t block : {256U, 512U, 1024U, 2048U}) {
        const QuantFormat format{bits, block, rounding};
        SCOPED_TRACE(name_of(format));
        const std::size_t n = 5 * block + 37;
        const auto floats = gradient_like(n, block);
        const std::vector<TypeParam> x(floats.begin(), floats.end());
        const Bytes bytes = quantized(format, x);
        const ReferenceBlock want = reference(format, {x.begin(), x.end()});
        for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(code_at(format, n, bytes, i), want.codes[i]) << i;
        const std::vector<TypeParam> values = dequantized<TypeParam>(format, n, bytes);
        for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(values[i], TypeParam(want.values[i])) << i;

        std::vector<TypeParam> shifted(n + 1), y(n + 1);
        std::copy(x.begin(), x.end(), shifted.begin() + 1);
        Bytes at_odd(bytes.size() + 1);
        quantize(format, dtype_of<TypeParam>, n, &shifted[1], &at_odd[1]);
        EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), at_odd.begin() + 1));
        dequantize(format, dtype_of<TypeParam>, n, &at_odd[1], &y[1]);
        EXPECT_TRUE(std::equal(values.begin(), values.end(), y.begin() + 1));
      }
    }
  }
}

/// Twenty-four numbers of the oracle's case group_8, and the codes of DeepSpeed's kernels.
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
  SHOAL_NEED(file);
  const shoal::test::Hdf5 oracle(file);
  const auto index = shoal::test::read_json(shoal::test::shared_data("oracles/quantization/quantization.json"));
  std::set<std::string> cases;  // like "normal/int8_symmetric", and those of qgz.h5
  for (const auto& [what, figures] : index.at("measured").items()) cases.insert(what.substr(0, what.find('/')));
  cases.erase("qgz");
  ASSERT_GE(cases.size(), 16U);
  for (const std::string& name : cases) {
    const auto block = static_cast<std::size_t>(oracle.number("group_size", name));
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
/// INT8: the scale is at least the quarter's own largest magnitude. Its codes are evenly spaced, so errors are at most half
/// a step, or a whole step at the end that has one code less. INT4: the scale has an error of half a 32nd, or up to 1/32 if
/// the quarter's elements are small. The values of codes 7 and 8 differ by 31/192, and the boundary between them is a
/// quarter of 1/192 away from the middle.
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
  const QuantError error = error_of(format, x, quantized(format, x));
  return std::sqrt(error.errors / error.values);
}

/// The errors that the header states.
TEST(QuantizeAccurately, Int4LosesMuchLessThanDeepSpeeds) {
  std::vector<float> normal(1U << 18U), heavy(normal.size());
  const auto a = numbers(normal.size(), 1, 0.0F, 1.0F), b = numbers(normal.size(), 2, 0.0F, 1.0F);
  std::vector<double> squares(normal.size(), 0.0);
  for (std::size_t i = 0; i < normal.size(); ++i) {
    normal[i] = std::sqrt(-2.0F * std::log(a[i])) * std::cos(6.2831853F * b[i]);
  }
  for (std::size_t i = 0; i < heavy.size(); ++i) {  // t: divided by the root of a mean of three squares
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

}  // namespace of_quantize_codes_test
}  // namespace shoal::kernels::test
