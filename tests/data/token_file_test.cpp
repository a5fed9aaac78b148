// SPDX-License-Identifier: Apache-2.0
// Tokens files: what is written is read back. A file with a wrong layout is refused, and the error names file and dataset.
#include "shoal/io/token_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "files_fixture.hpp"
#include "shoal/base/error.hpp"
#include "shoal/data/tokens.hpp"

namespace of_token_file_test {

using shoal::io::TokenFile;
using shoal::io::TokenFileWriter;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Writes a tokens file by calls of HDF5, so that tests can make files with errors.
class HandMade {
 public:
  explicit HandMade(const std::string& path) : file_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) {}
  ~HandMade() { H5Fclose(file_); }
  HandMade(const HandMade&) = delete;
  HandMade& operator=(const HandMade&) = delete;

  HandMade& attribute(hid_t type, const void* value, hsize_t count = 1) {
    const hid_t space = H5Screate_simple(1, &count, nullptr);
    const hid_t attribute = H5Acreate2(file_, "vocab_size", type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attribute, type, value);
    H5Aclose(attribute);
    H5Sclose(space);
    return *this;
  }
  HandMade& vocab_size(std::int64_t value) { return attribute(H5T_NATIVE_INT64, &value); }
  HandMade& dataset(const char* name, hid_t type, const std::vector<hsize_t>& shape, const void* data) {
    const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
    const hid_t set = H5Dcreate2(file_, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (data != nullptr) H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
    H5Dclose(set);
    H5Sclose(space);
    return *this;
  }
  /// Compressed, in one chunk.
  HandMade& packed(const char* name, const std::vector<hsize_t>& shape, const std::uint16_t* data) {
    const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
    const hid_t create = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(create, static_cast<int>(shape.size()), shape.data());
    H5Pset_deflate(create, 1);
    const hid_t set = H5Dcreate2(file_, name, H5T_STD_U16LE, space, H5P_DEFAULT, create, H5P_DEFAULT);
    H5Dwrite(set, H5T_NATIVE_UINT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
    H5Dclose(set);
    H5Pclose(create);
    H5Sclose(space);
    return *this;
  }

 private:
  hid_t file_;
};

class TokenFiles : public FilesTest {
 protected:
  std::vector<std::uint16_t> ids_ = {0, 1, 2, 3, 4, 5};

  std::string refusal(const std::string& name) const {
    try {
      const TokenFile file(path(name));
    } catch (const shoal::Error& error) {
      EXPECT_EQ(error.code(), shoal::Exit::bad_input) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(path(name)));
      return error.what();
    }
    return "not refused";
  }
};

TEST_F(TokenFiles, ReadBackAsWritten) {
  for (const std::size_t vocab_size : {3U, 65536U, 65537U, 2000000000U}) {
    const std::vector<std::int32_t> first{0, 1, 2}, second{static_cast<std::int32_t>(vocab_size - 1), 0};
    const std::vector<std::string> vocabulary{"a", "", std::string("\0\xFF", 2)};
    const std::string name = path(std::to_string(vocab_size) + ".h5");
    TokenFileWriter writer(name, 5, vocab_size, vocabulary);
    writer.append(first);
    EXPECT_FALSE(std::filesystem::exists(name));
    writer.append(second);
    writer.finish();

    ASSERT_TRUE(shoal::io::is_hdf5(name));
    const TokenFile file(name);
    EXPECT_EQ(file.size(), 5U);
    EXPECT_EQ(file.row_length(), 0U);
    EXPECT_EQ(file.vocab_size(), vocab_size);
    EXPECT_EQ(file.vocabulary(), vocabulary);
    std::vector<std::int32_t> tokens(3);
    file.read(2, tokens);
    EXPECT_THAT(tokens, ElementsAre(2, second[0], 0));
  }
}

TEST_F(TokenFiles, UnfinishedOnesDoNotAppear) {
  {
    TokenFileWriter writer(path("a.h5"), 5, 10, {});
    writer.append(std::vector<std::int32_t>{1, 2});
    EXPECT_THROW(writer.finish(), shoal::Error);
    EXPECT_THROW(writer.append(std::vector<std::int32_t>{1, 2, 3, 4}), shoal::Error);
    EXPECT_THROW(writer.append(std::vector<std::int32_t>{10}), shoal::Error);
  }
  EXPECT_TRUE(std::filesystem::is_empty(path("")));
  EXPECT_THROW(TokenFileWriter(path("huge.h5"), std::size_t{1} << 55U, 10, {}), shoal::Error);
  EXPECT_TRUE(std::filesystem::is_empty(path("")));
}

TEST_F(TokenFiles, RowsOfSamples) {
  HandMade(path("a.h5")).vocab_size(6).dataset("samples", H5T_NATIVE_UINT16, {2, 3}, ids_.data());
  const TokenFile file(path("a.h5"));
  EXPECT_EQ(file.size(), 2U);
  EXPECT_EQ(file.row_length(), 3U);
  std::vector<std::int32_t> row(3);
  file.read(1, row);
  EXPECT_THAT(row, ElementsAre(3, 4, 5));

  shoal::data::DataOptions options;
  options.source = path("a.h5");
  options.val_fraction = 0.5;
  const shoal::data::Dataset data = shoal::data::open(options, 0, 2, 1);
  EXPECT_EQ(data.train->count(), 1U);
  EXPECT_EQ(data.validation->count(), 1U);
  EXPECT_EQ(data.description, "a.h5: 2 samples of 3 tokens, 6 symbols");
  data.validation->read(0, row);
  EXPECT_THAT(row, ElementsAre(3, 4, 5));
  EXPECT_THAT([&] { shoal::data::open(options, 0, 4, 1); },
              ThrowsMessage<shoal::Error>(HasSubstr("a.h5: /samples has rows of 3 tokens; model.block_size = 4 needs 5")));
}

/// One rank opens and describes a file; another reads it by that description alone, without HDF5 if the tokens lie plainly.
TEST_F(TokenFiles, ARankReadsWhatAnotherHasDescribed) {
  const std::vector<std::uint32_t> wide{0, 1, 2, 3, 4, 70000};
  std::vector<std::uint32_t> swapped;
  for (const std::uint32_t id : wide) swapped.push_back(__builtin_bswap32(id));
  HandMade(path("u16.h5")).vocab_size(6).dataset("tokens", H5T_STD_U16LE, {6}, ids_.data());
  HandMade(path("rows.h5")).vocab_size(6).dataset("samples", H5T_STD_U16LE, {2, 3}, ids_.data());
  HandMade(path("u32.h5")).vocab_size(70001).dataset("samples", H5T_STD_U32LE, {2, 3}, wide.data());
  HandMade(path("big-endian.h5")).vocab_size(70001).dataset("samples", H5T_STD_U32BE, {2, 3}, swapped.data());
  HandMade(path("chunks.h5")).vocab_size(6).packed("tokens", {6}, ids_.data());
  for (const auto& [name, width] : std::map<std::string, std::size_t>{
           {"u16.h5", 2}, {"rows.h5", 2}, {"u32.h5", 4}, {"big-endian.h5", 0}, {"chunks.h5", 0}}) {
    const TokenFile described(path(name));
    EXPECT_EQ(described.layout().width, width) << name;
    const shoal::io::TokenReader reader(described.layout());
    const std::size_t last = described.row_length() != 0 ? 1 : 3;
    for (const std::size_t first : {std::size_t{0}, last}) {
      std::vector<std::int32_t> expected(3), found(3);
      described.read(first, expected);
      reader.read(first, found);
      EXPECT_EQ(found, expected) << name;
    }
    std::vector<std::int32_t> tokens(3);
    EXPECT_THROW(reader.read(described.size(), tokens), shoal::Error) << name;
  }
}

/// What is wrong with a file on one rank alone: another file under its name, a shorter one, none.
TEST_F(TokenFiles, ADescribedFileThatIsNotThere) {
  HandMade(path("a.h5")).vocab_size(6).dataset("tokens", H5T_STD_U16LE, {6}, ids_.data());
  shoal::io::TokenLayout layout = TokenFile(path("a.h5")).layout();
  std::vector<std::int32_t> tokens(3);
  {
    const shoal::io::TokenReader reader(layout);
    std::filesystem::resize_file(path("a.h5"), layout.offset + 8);
    EXPECT_NO_THROW(reader.read(1, tokens));
    EXPECT_THAT([&] { reader.read(2, tokens); }, ThrowsMessage<shoal::Error>(HasSubstr("a.h5: ends at byte")));
    layout.vocab_size = 3;
    EXPECT_THAT([&] { shoal::io::TokenReader(layout).read(1, tokens); },
                ThrowsMessage<shoal::Error>(HasSubstr("a.h5: /tokens[3] = 3: not in the vocabulary (vocab_size = 3)")));
  }
  std::filesystem::remove(path("a.h5"));
  EXPECT_THAT([&] { shoal::io::TokenReader{layout}; },
              ThrowsMessage<shoal::Error>(HasSubstr("a.h5: cannot be opened: No such file")));
}

TEST_F(TokenFiles, AnIdBeyondTheVocabularyIsNamedWhereItStands) {
  const std::vector<std::uint32_t> wide{0, 1, 4000000000U, 3, 1, 0};
  HandMade(path("a.h5")).vocab_size(4).dataset("tokens", H5T_NATIVE_UINT16, {6}, ids_.data());
  HandMade(path("b.h5")).vocab_size(4).dataset("samples", H5T_NATIVE_UINT32, {2, 3}, wide.data());
  std::vector<std::int32_t> tokens(3);
  const TokenFile a(path("a.h5")), b(path("b.h5"));
  EXPECT_NO_THROW(a.read(1, tokens));
  EXPECT_THAT([&] { a.read(2, tokens); },
              ThrowsMessage<shoal::Error>(HasSubstr("a.h5: /tokens[4] = 4: not in the vocabulary (vocab_size = 4)")));
  EXPECT_NO_THROW(b.read(1, tokens));
  EXPECT_THAT([&] { b.read(0, tokens); }, ThrowsMessage<shoal::Error>(HasSubstr("b.h5: /samples[0, 2] = 4000000000")));
  EXPECT_THROW(a.read(4, tokens), shoal::Error);  // beyond the end
}

TEST_F(TokenFiles, AnotherLayoutIsRefused) {
  const auto make = [&] { return HandMade(path("a.h5")); };
  make().vocab_size(6);
  EXPECT_THAT(refusal("a.h5"), HasSubstr("neither /tokens nor /samples"));
  make()
      .vocab_size(6)
      .dataset("tokens", H5T_NATIVE_UINT16, {6}, ids_.data())
      .dataset("samples", H5T_NATIVE_UINT16, {2, 3}, ids_.data());
  EXPECT_THAT(refusal("a.h5"), HasSubstr("both /tokens and /samples"));
  make().dataset("tokens", H5T_NATIVE_UINT16, {6}, ids_.data());
  EXPECT_THAT(refusal("a.h5"), HasSubstr("no attribute vocab_size"));
  make().vocab_size(0).dataset("tokens", H5T_NATIVE_UINT16, {6}, ids_.data());
  EXPECT_THAT(refusal("a.h5"), HasSubstr("vocab_size = 0; allowed: 1 to"));
  const std::vector<std::int64_t> two{6, 7};
  make().attribute(H5T_NATIVE_INT64, two.data(), 2).dataset("tokens", H5T_NATIVE_UINT16, {6}, ids_.data());
  EXPECT_THAT(refusal("a.h5"), HasSubstr("not one integer"));
  const double real = 6;
  make().attribute(H5T_NATIVE_DOUBLE, &real).dataset("tokens", H5T_NATIVE_UINT16, {6}, ids_.data());
  EXPECT_THAT(refusal("a.h5"), HasSubstr("not one integer"));
  for (const hid_t type : {H5T_NATIVE_FLOAT, H5T_NATIVE_INT32, H5T_NATIVE_UINT8, H5T_NATIVE_UINT64}) {
    make().vocab_size(6).dataset("tokens", type, {6}, nullptr);
    EXPECT_THAT(refusal("a.h5"), HasSubstr("/tokens: wrong type; allowed: uint16, uint32"));
  }
  make().vocab_size(6).dataset("tokens", H5T_NATIVE_UINT16, {2, 3}, ids_.data());
  EXPECT_THAT(refusal("a.h5"), HasSubstr("/tokens: 2 dimensions instead of 1"));
  make().vocab_size(6).dataset("samples", H5T_NATIVE_UINT16, {6}, ids_.data());
  EXPECT_THAT(refusal("a.h5"), HasSubstr("/samples: 1 dimensions instead of 2"));
  make().vocab_size(6).dataset("tokens", H5T_NATIVE_UINT16, {0}, nullptr);
  EXPECT_THAT(refusal("a.h5"), HasSubstr("/tokens: empty"));
  make()
      .vocab_size(6)
      .dataset("tokens", H5T_NATIVE_UINT16, {6}, ids_.data())
      .dataset("vocabulary", H5T_NATIVE_UINT16, {6}, ids_.data());
  EXPECT_THAT(refusal("a.h5"), HasSubstr("/vocabulary: not of variable length"));
}

TEST_F(TokenFiles, MoreNamesThanSymbolsAreRefused) {
  TokenFileWriter writer(path("a.h5"), 1, 2, {"a", "b", "c"});
  writer.append(std::vector<std::int32_t>{0});
  writer.finish();
  EXPECT_THAT(refusal("a.h5"), HasSubstr("/vocabulary has 3 tokens, vocab_size is 2"));
}

TEST_F(TokenFiles, ATruncatedFileIsRefused) {
  {
    TokenFileWriter writer(path("a.h5"), 100000, 10, {});
    writer.append(std::vector<std::int32_t>(100000, 1));
    writer.finish();
  }
  std::filesystem::resize_file(path("a.h5"), 50000);
  EXPECT_TRUE(shoal::io::is_hdf5(path("a.h5")));
  EXPECT_THAT(refusal("a.h5"), HasSubstr("truncated file"));
  EXPECT_FALSE(shoal::io::is_hdf5(write("short", "\x89HDF")));
  EXPECT_THROW(shoal::io::is_hdf5(path("missing")), shoal::Error);
}

TEST_F(TokenFiles, AFileWithAUserBlockIsNotTakenForText) {
  for (const hsize_t bytes : {512, 1024, 65536}) {
    const hid_t create = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_userblock(create, bytes);
    H5Fclose(H5Fcreate(path("behind.h5").c_str(), H5F_ACC_TRUNC, create, H5P_DEFAULT));
    H5Pclose(create);
    EXPECT_THAT([&] { shoal::io::is_hdf5(path("behind.h5")); },
                ThrowsMessage<shoal::Error>(HasSubstr("a user block of " + std::to_string(bytes) + " bytes")));
  }
}

}  // namespace of_token_file_test
