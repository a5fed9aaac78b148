// SPDX-License-Identifier: Apache-2.0
// Tokens files in formats newer than HDF5 1.8's, as h5py writes them with libver="latest": what the library can read is
// read, and damage or a format of the future is an error of one line.
#include <hdf5.h>

#include "io/scratch.hpp"
#include "shoal/io/hdf5.hpp"
#include "shoal/io/token_file.hpp"

/// LeakSanitizer asks for this. HDF5 does not free everything when it cannot read a file.
extern "C" const char* __lsan_default_suppressions();                              // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5\n"; }  // NOLINT(bugprone-reserved-identifier)

namespace shoal::test {
namespace of_newer_format_test {

namespace fs = std::filesystem;
using testing::EndsWith;

constexpr std::size_t version_at = 8;  // of the superblock
constexpr std::size_t tokens = 200;

/// How the tokens lie in the file. Each kind of chunks has an index of its own.
struct Form {
  const char* name;
  hsize_t chunk;  ///< 0: contiguous
  bool grows, deflated;
};
constexpr Form forms[] = {
    {"contiguous", 0, false, false},      {"one chunk", tokens, false, false},  {"one deflated chunk", tokens, false, true},
    {"chunks", 30, false, false},         {"deflated chunks", 30, false, true}, {"growing", 30, true, false},
    {"growing, deflated", 30, true, true}};

class NewerFormat : public testing::TestWithParam<Form> {
 protected:
  fs::path file() const { return scratch_.path() / "tokens.h5"; }

  void write() const {
    const Form& form = GetParam();
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS), create = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    if (form.chunk != 0) H5Pset_chunk(create, 1, &form.chunk);
    if (form.deflated) H5Pset_deflate(create, 1);
    const hid_t h5 = H5Fcreate(file().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
    const hsize_t count = tokens, most = form.grows ? H5S_UNLIMITED : count;
    const hid_t scalar = H5Screate(H5S_SCALAR), space = H5Screate_simple(1, &count, &most);
    const hid_t attribute = H5Acreate2(h5, "vocab_size", H5T_STD_I64LE, scalar, H5P_DEFAULT, H5P_DEFAULT);
    const std::int64_t symbols = 40;
    H5Awrite(attribute, H5T_NATIVE_INT64, &symbols);
    const hid_t dataset = H5Dcreate2(h5, "tokens", H5T_STD_U16LE, space, H5P_DEFAULT, create, H5P_DEFAULT);
    std::vector<std::uint16_t> values(tokens);
    for (std::size_t i = 0; i < tokens; ++i) values[i] = static_cast<std::uint16_t>(i % 40);
    EXPECT_GE(H5Dwrite(dataset, H5T_NATIVE_UINT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    H5Dclose(dataset);
    H5Aclose(attribute);
    H5Sclose(space);
    H5Sclose(scalar);
    H5Fclose(h5);
    H5Pclose(create);
    H5Pclose(access);
  }

  /// All tokens as they are read.
  std::vector<std::int32_t> read() const {
    std::vector<std::int32_t> values(tokens);
    io::TokenFile(file()).read(0, values);
    return values;
  }

  Scratch scratch_;
};

INSTANTIATE_TEST_SUITE_P(Forms, NewerFormat, testing::ValuesIn(forms), [](const auto& form) {
  std::string name = form.param.name;
  std::erase_if(name, [](char c) { return c == ' ' || c == ','; });
  return name;
});

TEST_P(NewerFormat, IsRead) {
  write();
  ASSERT_GT(read_all(file())[version_at], 2) << "a format that HDF5 1.8 knows";
  const std::vector<std::int32_t> values = read();
  for (std::size_t i = 0; i < tokens; ++i) ASSERT_EQ(values[i], static_cast<std::int32_t>(i % 40)) << i;
}

/// Other tokens may be returned; a crash is not allowed. Every fifth byte takes a second. The file is changed in place: a
/// new one would wait for the disk.
TEST_P(NewerFormat, WhicheverByteChangedThereIsOneLine) {
  write();
  const std::string good = read_all(file());
  std::fstream changed(file(), std::ios::in | std::ios::out | std::ios::binary);
  const auto put = [&](std::size_t at, char byte) { changed.seekp(static_cast<std::streamoff>(at)).put(byte).flush(); };
  std::size_t refused = 0;
  for (std::size_t at = 0; at < good.size(); at += 5) {
    put(at, static_cast<char>(good[at] ^ std::array{'\x01', '\x80', '\xFF'}[at % 3]));
    try {
      read();
    } catch (const Error& error) {
      const std::string message = error.what();
      ASSERT_TRUE(message.starts_with(file().string() + ": ")) << at << ": " << message;
      ASSERT_EQ(message.find('\n'), std::string::npos) << message;
      ++refused;
    }
    put(at, good[at]);
  }
  EXPECT_GT(refused, 10U) << "of " << good.size();
}

TEST_P(NewerFormat, OfTheFutureIsRefusedWithAdvice) {
  write();
  std::string future = read_all(file());
  future[version_at] = 9;
  write_all(file(), future);
  EXPECT_THAT(
      error_of([&] { read(); }),
      EndsWith(" cannot read; write it with libver=\"earliest\" in h5py, or convert it with the h5repack of a newer HDF5"));
}

/// A writer that is still at work, or was killed, may not have written all.
TEST_P(NewerFormat, ThatIsStillOpenIsRefused) {
  write();
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
  const hid_t h5 = H5Fopen(file().c_str(), H5F_ACC_RDWR | H5F_ACC_SWMR_WRITE, access);
  ASSERT_GE(h5, 0);
  const std::string open = read_all(file());  // as it would be if its writer were killed now
  H5Fclose(h5);
  H5Pclose(access);
  EXPECT_NO_THROW(read());
  write_all(file(), open);
  EXPECT_EQ(error_of([&] { read(); }), file().string() +
                                           ": a program has it open for writing, or has ended without closing it; if none "
                                           "uses it: h5clear --status FILE");
}

TEST(Format, OfOurFilesIsThatOfHdf5_1_8) {
  const Scratch scratch;
  const fs::path file = scratch.path() / "ours.h5";
  io::hdf5::Handle created = io::hdf5::create_file(file, true);
  io::hdf5::close_file(created, "ours.h5");
  EXPECT_LE(read_all(file)[version_at], 2);
}

}  // namespace of_newer_format_test
}  // namespace shoal::test
