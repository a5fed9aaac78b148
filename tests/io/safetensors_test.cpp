// SPDX-License-Identifier: Apache-2.0
#include "shoal/io/safetensors.hpp"

#include <cmath>
#include <limits>

#include "io/scratch.hpp"

namespace shoal::test {
namespace of_safetensors_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// Writes a file with this header and these data.
std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

std::string header_error(const std::string& json, std::uint64_t data_bytes) {
  return error_of([&] { io::parse_safetensors_header(json, data_bytes, "x.safetensors"); });
}

TEST(SafetensorsHeader, IsRead) {
  const auto entries = io::parse_safetensors_header(
      R"({"__metadata__": {"format": "pt"}, "b": {"dtype": "F32", "shape": [2, 3], "data_offsets": [4, 28]},
          "a": {"shape": [2], "data_offsets": [0, 4], "dtype": "BF16"}, "none": {"dtype": "F32", "shape": [0, 7], "data_offsets": [4, 4]},
          "scalar": {"dtype": "F32", "shape": [], "data_offsets": [28, 32]}}   )",
      32, "x");
  ASSERT_EQ(entries.size(), 4U);
  EXPECT_EQ(entries.at("b").shape, (std::vector<std::size_t>{2, 3}));
  EXPECT_EQ(entries.at("b").begin, 4U);
  EXPECT_EQ(entries.at("a").dtype, "BF16");
  EXPECT_EQ(entries.at("none").elements(), 0U);
  EXPECT_EQ(entries.at("scalar").elements(), 1U);
}

struct Refusal {
  const char* json;
  std::uint64_t data_bytes;
  const char* says;
};

class SafetensorsRefusal : public testing::TestWithParam<Refusal> {};

TEST_P(SafetensorsRefusal, NamesFileAndCause) {
  const Refusal& r = GetParam();
  EXPECT_THAT(header_error(r.json, r.data_bytes), AllOf(testing::StartsWith("x.safetensors: "), HasSubstr(r.says)));
}

INSTANTIATE_TEST_SUITE_P(
    Headers, SafetensorsRefusal,
    testing::Values(
        Refusal{R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]})", 8, "not valid JSON at its byte 61"},
        Refusal{"", 0, "not valid JSON"}, Refusal{"[1]", 0, "unexpected: a list"}, Refusal{"7", 0, "the number 7"},
        Refusal{R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}} x)", 8, "not valid JSON at its byte"},
        Refusal{R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})", 4,
                "beyond the end of the file, which has 4 bytes"},
        Refusal{R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})", 12, "end at byte 8 of 12"},
        Refusal{R"({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}})", 8,
                "hold 8 bytes, the shape and F32 need 12"},
        Refusal{R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}})", 8, "[begin, end]"},
        Refusal{R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0]}})", 8, "[begin, end]"},
        Refusal{R"({"a": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]}})", 0, "too large"},
        Refusal{R"({"a": {"dtype": "F32", "shape": [18446744073709551615], "data_offsets": [0, 8]}})", 8, "too large"},
        Refusal{R"({"a": {"dtype": "F32", "shape": [99999999999999999999], "data_offsets": [0, 8]}})", 8, "the number"},
        Refusal{R"({"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}})", 8, "the number -2"},
        Refusal{R"({"a": {"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]}})", 8, "the number 2.0"},
        Refusal{R"({"a": {"dtype": "F7", "shape": [2], "data_offsets": [0, 8]}})", 8, "unknown dtype 'F7'; known: F64, F32"},
        Refusal{R"({"a": {"dtype": "F\n7", "shape": [2], "data_offsets": [0, 8]}})", 8, R"(unknown dtype 'F\n7'; known)"},
        Refusal{R"({"a\nb": {"type": "F32"}})", 8, R"(a\nb: type: unknown field)"},
        Refusal{R"({"a": {"dtype": "F32", "data_offsets": [0, 8]}})", 8, "a: shape is missing"},
        Refusal{R"({"a": {"dtype": "F32", "shape": [2], "shape": [2], "data_offsets": [0, 8]}})", 8, "shape: given twice"},
        Refusal{R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], "more": 1}})", 8, "more: unknown field"},
        Refusal{
            R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})",
            8, "'a' appears twice"},
        Refusal{
            R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}})",
            12, "b: begins at byte 4, within the tensor before it"},
        Refusal{
            R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "b": {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]}})",
            12, "bytes 4 .. 8 belong to no tensor"},
        Refusal{R"({"a\nb": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})", 8, R"(a\nb: begins at byte 4)"},
        Refusal{R"({"a": {"dtype": {"x": 1}, "shape": [2], "data_offsets": [0, 8]}})", 8, "unexpected: an object"},
        Refusal{R"({"a": {"dtype": "F32", "shape": [[2]], "data_offsets": [0, 8]}})", 8, "unexpected: a list"}));

TEST(Safetensors, ReadsHalfPrecisions) {
  Scratch scratch;
  const std::uint16_t half[] = {0x3c00, 0xc000, 0x0001, 0x83ff, 0x7bff, 0x7c00, 0xfc00, 0x7e00, 0x0000};
  const std::uint16_t brain[] = {0x3f80, 0xc000, 0x7f80};
  const std::string data = std::string(reinterpret_cast<const char*>(half), sizeof half) +
                           std::string(reinterpret_cast<const char*>(brain), sizeof brain);
  write_all(
      scratch.path() / "model.safetensors",
      file_of(
          R"({"h": {"dtype": "F16", "shape": [3, 3], "data_offsets": [0, 18]}, "b": {"dtype": "BF16", "shape": [3], "data_offsets": [18, 24]}})",
          data));
  const io::Safetensors file(scratch.path());
  std::vector<float> h(9), b(2);
  file.read("h", {0, 9}, h);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> expected = {1.0F, -2.0F, 0x1p-24F, -1023 * 0x1p-24F, 65504.0F, infinity, -infinity};
  EXPECT_EQ(std::vector<float>(h.begin(), h.begin() + 7), expected);
  EXPECT_TRUE(std::isnan(h[7]));
  EXPECT_EQ(h[8], 0.0F);
  file.read("b", {1, 3}, b);
  EXPECT_EQ(b, (std::vector<float>{-2.0F, infinity}));
}

TEST(Safetensors, WhatIsWrittenIsRead) {
  Scratch scratch;
  const fs::path path = scratch.path() / "model.safetensors";
  std::vector<float> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 3.0F;
  {
    io::SafetensorsWriter writer(path, {{"a \"quoted\"", {10, 90}}, {"b", {100}}});
    writer.append(Span<const float>(values).first(123));
    EXPECT_FALSE(fs::exists(path));
    writer.append(Span<const float>(values).subspan(123));
    EXPECT_THROW(writer.append(values), Error);
    writer.finish();
  }
  const io::Safetensors file(path);
  std::vector<float> a(800), b(100);
  file.read("a \"quoted\"", {100, 900}, a);
  file.read("b", {0, 100}, b);
  EXPECT_TRUE(std::equal(a.begin(), a.end(), values.begin() + 100));
  EXPECT_TRUE(std::equal(b.begin(), b.end(), values.begin() + 900));
  EXPECT_THAT(error_of([&] { file.read("c", {0, 1}, Span<float>(b).first(1)); }), HasSubstr("no tensor c"));
  EXPECT_EQ(read_all(path).size() % 4, 0U);
}

TEST(Safetensors, AnUnfinishedFileLeavesNothing) {
  Scratch scratch;
  {
    io::SafetensorsWriter writer(scratch.path() / "model.safetensors", {{"a", {10}}});
    EXPECT_THROW(writer.finish(), Error);
  }
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

TEST(Safetensors, CutOffFilesAreRefused) {
  Scratch scratch;
  const fs::path path = scratch.path() / "x.safetensors";
  const std::string whole =
      file_of(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})", std::string(8, '\0'));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_all(path, whole.substr(0, size));
    EXPECT_THAT(error_of([&] { const io::Safetensors file(path); }), HasSubstr(path.string())) << size;
  }
  write_all(path, whole);
  EXPECT_EQ(io::Safetensors(path).entries().size(), 1U);
}

TEST(Safetensors, APointerOfGitLfsIsNamed) {
  Scratch scratch;
  const fs::path path = scratch.path() / "model.safetensors";
  write_all(path, "version https://git-lfs.example/spec/v1\noid sha256:" + std::string(64, 'a') + "\nsize 548105171\n");
  EXPECT_EQ(error_of([&] { const io::Safetensors file(scratch.path()); }),
            path.string() + ": a pointer of Git LFS, not the weights themselves; fetch them: git lfs pull");
}

TEST(Safetensors, ShardsAreFoundThroughTheirIndex) {
  Scratch scratch;
  const auto write_shard = [&](const char* name, const char* tensor, float value) {
    io::SafetensorsWriter writer(scratch.path() / name, {{tensor, {1}}});
    writer.append(Span<const float>(&value, 1));
    writer.finish();
  };
  const auto opened = [&] { return error_of([&] { const io::Safetensors file(scratch.path()); }); };
  EXPECT_THAT(opened(), HasSubstr("neither model.safetensors nor"));
  write_shard("one.safetensors", "a", 1);
  write_shard("two.safetensors", "b", 2);
  const fs::path index = scratch.path() / "model.safetensors.index.json";
  write_all(index, R"({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})");
  const io::Safetensors file(scratch.path());
  EXPECT_EQ(file.entries().size(), 2U);
  float value = 0;
  file.read("b", {0, 1}, Span<float>(&value, 1));
  EXPECT_EQ(value, 2.0F);
  write_all(index, R"({"weight_map": {"a": "one.safetensors", "b": "one.safetensors"}})");
  EXPECT_THAT(opened(), HasSubstr("b is not in one.safetensors"));
  write_all(index, R"({"weight_map": {"a": "../one.safetensors"}})");
  EXPECT_THAT(opened(), HasSubstr("same directory"));
  write_all(index, "{");
  EXPECT_THAT(opened(), HasSubstr("not an index of shards"));
  write_all(index, R"({"weight_map": {"a": "three.safetensors"}})");
  EXPECT_THAT(opened(), HasSubstr("three.safetensors: no such file"));
}

}  // namespace of_safetensors_test
}  // namespace shoal::test
