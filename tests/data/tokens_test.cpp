// SPDX-License-Identifier: Apache-2.0
// Data sources: the samples that they give, and the sources that are refused.
#include "shoal/data/tokens.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <numeric>

#include "files_fixture.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/philox.hpp"
#include "shoal/data/tokenize.hpp"
#include "shoal/io/token_file.hpp"

namespace of_tokens_test {

using shoal::data::DataOptions;
using shoal::data::Dataset;
using shoal::data::Samples;
using shoal::data::Tokenizer;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::size_t T = 4;

std::vector<std::int32_t> sample(const Samples& samples, std::size_t s, std::size_t block_size = T) {
  std::vector<std::int32_t> tokens(block_size + 1);
  samples.read(s, tokens);
  return tokens;
}

class Sources : public FilesTest {
 protected:
  Sources() {
    options_.val_fraction = 0;
    options_.tokenizer = Tokenizer::chars;
  }
  Dataset open(const std::string& source, std::size_t vocab_size = 0, std::size_t block_size = T) {
    options_.source = source;
    return shoal::data::open(options_, vocab_size, block_size, 1);
  }
  /// Returns the error text if the source is refused, which must be bad input in one line.
  std::string refusal(const std::string& source, std::size_t vocab_size = 0) {
    try {
      open(source, vocab_size);
    } catch (const shoal::Error& error) {
      EXPECT_EQ(error.code(), shoal::Exit::bad_input) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      return error.what();
    }
    return "not refused";
  }
  /// A tokens file of 0, 1, 2, ... modulo vocab_size.
  std::string token_file(const std::string& name, std::size_t tokens, std::size_t vocab_size,
                         const shoal::data::Vocabulary& vocabulary = {}) {
    std::vector<std::int32_t> ids(tokens);
    for (std::size_t i = 0; i < tokens; ++i) ids[i] = static_cast<std::int32_t>(i % vocab_size);
    shoal::io::TokenFileWriter writer(path(name), tokens, vocab_size, vocabulary);
    writer.append(ids);
    writer.finish();
    return path(name);
  }

  DataOptions options_;
};

TEST_F(Sources, CharactersAreNumberedInOrder) {
  const Dataset data = open(write("a.txt", "cab\ncab €é\n"));
  EXPECT_EQ(data.vocabulary, (shoal::data::Vocabulary{"\n", " ", "a", "b", "c", "é", "€"}));
  EXPECT_EQ(data.vocab_size, 7U);
  EXPECT_EQ(data.description, "a.txt: 14 bytes, 7 characters");
  EXPECT_FALSE(data.entropy_rate);
  EXPECT_EQ(data.validation, nullptr);
  ASSERT_EQ(data.train->count(), 2U);  // (11 - 1) / 4
  EXPECT_THAT(sample(*data.train, 0), ElementsAre(4, 2, 3, 0, 4));
  EXPECT_THAT(sample(*data.train, 1), ElementsAre(4, 2, 3, 1, 6));
}

/// The ids of more than 256 characters do not fit into a byte.
TEST_F(Sources, MoreCharactersThanAByteHasValues) {
  std::string text;
  for (unsigned i = 0; i < 500; ++i) text += {'\xE4', static_cast<char>(0xB8 + i / 64), static_cast<char>(0x80 + i % 64)};
  const Dataset data = open(write("many.txt", text));
  EXPECT_EQ(data.vocab_size, 500U);
  EXPECT_THAT(sample(*data.train, 64), ElementsAre(256, 257, 258, 259, 260));
  EXPECT_THAT(sample(*data.train, 123), ElementsAre(492, 493, 494, 495, 496));
}

TEST_F(Sources, RawBytesAreTheirOwnIds) {
  options_.tokenizer = Tokenizer::raw;
  const Dataset data = open(write("a.bin", std::string("\0\xFFz\x80y", 5)));
  EXPECT_EQ(data.vocab_size, 256U);
  EXPECT_THAT(sample(*data.train, 0), ElementsAre(0, 255, 'z', 128, 'y'));
}

TEST_F(Sources, SplitsAtTheFloor) {
  std::string text;
  for (int i = 0; i < 23; ++i) text += static_cast<char>('a' + i);
  options_.val_fraction = 0.25;  // floor(0.75 x 23) = 17 train, 6 validation
  const Dataset data = open(write("a.txt", text));
  EXPECT_EQ(data.train->count(), 4U);
  EXPECT_THAT(sample(*data.train, 3), ElementsAre(12, 13, 14, 15, 16));
  ASSERT_EQ(data.validation->count(), 1U);
  EXPECT_THAT(sample(*data.validation, 0), ElementsAre(17, 18, 19, 20, 21));
}

TEST_F(Sources, ListsAndPatternsAreJoined) {
  const std::string a = write("a.txt", "abc"), b = write("b.txt", "de");
  write("c.dat", "x");
  for (const std::string& source : {a + "," + b, a + " , " + b, path("*.txt"), path("[ab].txt"), path("?.txt")}) {
    const Dataset data = open(source);
    EXPECT_THAT(sample(*data.train, 0), ElementsAre(0, 1, 2, 3, 4)) << source;
    EXPECT_EQ(data.description, "2 files: 5 bytes, 5 characters");
  }
  // If a file with this name exists, the name is not a pattern.
  EXPECT_EQ(open(write("a,b[1]*.txt", "vwxyz")).description, "a,b[1]*.txt: 5 bytes, 5 characters");
}

TEST_F(Sources, AFileOfSeveralBlocksIsReadWhole) {
  // Characters have 3 bytes, and no power of two is a multiple of 3, so the reader must shorten every block to whole
  // characters.
  std::string text;
  const std::size_t characters = 3000000;
  for (std::size_t i = 0; i < characters; ++i) text += i % 1000 == 999 ? "語" : "字";
  const Dataset data = open(write("a.txt", text), 0, 999);
  ASSERT_EQ(data.train->count(), (characters - 1) / 999);
  std::size_t wrong = 0;
  for (std::size_t s = 0; s < data.train->count(); ++s) {
    const std::vector<std::int32_t> tokens = sample(*data.train, s, 999);
    for (std::size_t i = 0; i <= 999; ++i) wrong += tokens[i] != ((s * 999 + i) % 1000 == 999 ? 1 : 0);
  }
  EXPECT_EQ(wrong, 0U);
}

TEST_F(Sources, AVocabularyKeepsItsIds) {
  const std::string text = write("a.txt", "abcde\n");
  shoal::data::tokenize({text}, Tokenizer::chars, "", path("a.h5"));
  options_.vocabulary = path("a.h5");
  const Dataset later = open(write("b.txt", "eeebb"));
  EXPECT_EQ(later.vocab_size, 6U);
  EXPECT_THAT(sample(*later.train, 0), ElementsAre(5, 5, 5, 2, 2));
  EXPECT_THAT(refusal(write("c.txt", "abé")),
              HasSubstr("c.txt: byte 2: \"é\" (U+00E9) is not in the vocabulary of 6 symbols"));
  options_.vocabulary = text;
  EXPECT_THAT(refusal(text), HasSubstr("not a tokens file"));
  options_.vocabulary = token_file("none.h5", 9, 3);
  EXPECT_THAT(refusal(text), HasSubstr("none.h5: has no /vocabulary"));
  options_.vocabulary = token_file("bpe.h5", 9, 3, {"a", "bc", "d"});
  EXPECT_THAT(refusal(text), HasSubstr("token 1 of its vocabulary is no single character"));
  EXPECT_THAT(refusal(path("a.h5")), HasSubstr("data.vocabulary is for text"));
  EXPECT_THAT(refusal("synthetic"), HasSubstr("data.vocabulary is for text"));
}

TEST_F(Sources, ValidationTextOfItsOwn) {
  const std::string train = write("train.txt", "abcdefghi");
  options_.val_fraction = 0.5;
  options_.val_source = write("val.txt", "ihgfe");
  const Dataset data = open(train);
  EXPECT_EQ(data.train->count(), 2U);  // all of it
  EXPECT_THAT(sample(*data.validation, 0), ElementsAre(8, 7, 6, 5, 4));
  options_.val_source = write("other.txt", "abcdez");
  EXPECT_THAT(refusal(train), HasSubstr("other.txt: byte 5: \"z\" (U+007A) is not in the vocabulary of 9 symbols"));
  options_.val_source = token_file("val.h5", 9, 4);
  EXPECT_THAT(refusal(train), HasSubstr("val.h5: another vocabulary (4 symbols) than train.txt (9)"));
  EXPECT_THAT(refusal("synthetic"), HasSubstr("data.source = synthetic is validated on its own text"));
  options_.val_source = path("missing.txt");
  EXPECT_THAT(refusal(train), HasSubstr("data.val_source: "));
}

TEST_F(Sources, TokensFilesAreReadWhereTheyLie) {
  const std::string a = token_file("a.h5", 10, 100), b = token_file("b.h5", 7, 100), wide = token_file("wide.h5", 10, 70000);
  const Dataset one = open(a);
  EXPECT_EQ(one.vocab_size, 100U);
  EXPECT_TRUE(one.vocabulary.empty());
  EXPECT_EQ(one.description, "a.h5: 10 tokens, 100 symbols (data.tokenizer = chars is not used: it holds tokens)");
  options_.tokenizer = Tokenizer::bytes;
  EXPECT_EQ(open(a).description, "a.h5: 10 tokens, 100 symbols");
  const Dataset both = open(a + "," + b);
  ASSERT_EQ(both.train->count(), 4U);
  EXPECT_THAT(sample(*both.train, 2), ElementsAre(8, 9, 0, 1, 2));  // across the end of the first file
  EXPECT_THAT(sample(*both.train, 3), ElementsAre(2, 3, 4, 5, 6));
  EXPECT_THAT(sample(*open(wide).train, 1), ElementsAre(4, 5, 6, 7, 8));
  EXPECT_THAT(refusal(a + "," + wide), HasSubstr("wide.h5: another vocabulary (70000 symbols)"));
  EXPECT_THAT(refusal(a + "," + write("a.txt", "abc")), HasSubstr("all must be of one kind"));
}

TEST_F(Sources, TheModelsVocabularyMayBeLargerButNotSmaller) {
  const std::string text = write("a.txt", "abcde");
  EXPECT_EQ(open(text, 5).vocab_size, 5U);
  EXPECT_EQ(open(text, 64).vocab_size, 5U);
  EXPECT_THAT(refusal(text, 4),
              HasSubstr("a.txt: 5 symbols, but model.vocab_size = 4; allowed: 0 (take the data's), or at least 5"));
  EXPECT_EQ(open("synthetic").vocab_size, 64U);
  EXPECT_EQ(open("synthetic", 100).vocab_size, 100U);
}

/// Processor time of this thread, in seconds.
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Every rank makes all of it at the start.
TEST_F(Sources, SyntheticTextIsMadeQuickly) {
  options_.val_fraction = 0.1;
  const auto cheapest_of = [](const auto& work) {  // of several: other programs take a part of the processor's caches
    double least = 1e9;
    for (int attempt = 0; attempt < 3; ++attempt) {
      const double begin = processor_seconds();
      work();
      least = std::min(least, processor_seconds() - begin);
    }
    return least;
  };
  std::uint32_t any = 0;
  const double drawn = cheapest_of([&] {
    for (std::uint32_t i = 0; i < 943718U + 104858U; ++i) any += shoal::philox(1, {i, 0, 0, 0})[0];
  });
  EXPECT_NE(any, 0U);
  EXPECT_LT(cheapest_of([&] { open("synthetic", 0, 128); }), 5 * drawn) << "a symbol costs more than five random numbers";
  const Dataset data = open("synthetic", 0, 128);
  EXPECT_EQ(data.train->count(), (943718U - 1) / 128);
  EXPECT_EQ(data.validation->count(), (104858U - 1) / 128);
  EXPECT_GT(data.entropy_rate.value(), 1.0);
  EXPECT_EQ(data.vocabulary.size(), 64U);
  EXPECT_EQ(sample(*data.train, 5, 128), sample(*open("synthetic", 0, 128).train, 5, 128));
}

TEST_F(Sources, BadFilesAreRefusedByName) {
  EXPECT_THAT(refusal(path("missing.txt")), HasSubstr("data.source: " + path("missing.txt") + ": no such file"));
  EXPECT_THAT(refusal(path("*.none")), HasSubstr("no file matches " + path("*.none")));
  EXPECT_THAT(refusal(path("")), HasSubstr("is a directory"));
  EXPECT_THAT(refusal("/dev/null"), HasSubstr("not a regular file"));
  EXPECT_THAT(refusal(write("empty.txt", "")), HasSubstr("empty.txt: empty"));
  EXPECT_THAT(refusal(""), HasSubstr("no file is named"));
  EXPECT_THAT(refusal(write("a.txt", "abcde") + ",,"), HasSubstr("an empty name in the list"));
  EXPECT_THAT(refusal(write("short.txt", "abcd")),
              HasSubstr("short.txt: the training split has 4 tokens; one sample needs 5 tokens"));
  EXPECT_THAT(refusal(write("zero.txt", std::string("abc\0def", 7))), HasSubstr("zero.txt: byte 3 is zero: a binary file"));
  options_.val_fraction = 0.4;
  EXPECT_THAT(refusal(write("mid.txt", "abcdefghij")),
              HasSubstr("mid.txt: the validation split (data.val_fraction = 0.4 of 10; 0 for none) has 4 tokens"));
  options_.val_fraction = 1;
  EXPECT_THAT(refusal(path("a.txt")), HasSubstr("data.val_fraction = 1; allowed: 0 to less than 1"));
}

TEST_F(Sources, OnlyUtf8IsUtf8) {
  int number = 0;
  for (const char* wrong :
       {"\x80", "\xC3", "\xC0\x80", "\xE2\x82", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE0\x80\x80", "\xFF", "\xC3z"}) {
    const std::string name = "wrong" + std::to_string(number++) + ".txt";
    EXPECT_THAT(refusal(write(name, std::string("abcde") + wrong)), HasSubstr(name + ": byte 5: not UTF-8"));
  }
}

/// The bytes of other files would train as well as text does, and mean nothing.
TEST_F(Sources, WhatIsNoTextIsRefusedAsBytes) {
  options_.tokenizer = Tokenizer::bytes;
  const auto wide = [](std::string_view text, bool big) {
    std::string bytes;
    for (const char c : text) bytes += big ? std::string{'\0', c} : std::string{c, '\0'};
    return bytes;
  };
  std::string noise, words;
  for (unsigned i = 0; i < 4000; ++i) noise += static_cast<char>(1 + (i * 2654435761U >> 13U) % 255);
  for (int i = 0; i < 500; ++i) words += "plain words\n";
  const auto with = [](std::string_view begins) { return std::string(begins) + "the rest"; };
  const std::string ids = "token ids must be in a tokens file", unpack = "unpack it first", none;
  using namespace std::string_view_literals;
  struct Row {
    std::string content;
    std::size_t at;  ///< the byte that is named
    std::string looks, cure;
  };
  const std::vector<Row> rows{
      {with("\x1F\x8B\x08"sv), 0, "a gzip archive", unpack},
      {with("PK\x03\x04"sv), 2, "a zip archive", unpack},
      {with("\x28\xB5\x2F\xFD"sv), 1, "a zstd archive", unpack},
      {with("\xFD\x37zXZ\0"sv), 0, "an xz archive", unpack},
      {with("BZh91AY&SY\0"sv), 10, "a bzip2 archive", unpack},
      {with("\x93NUMPY\x01"sv), 0, "an array of NumPy", ids},
      {"\x88\xD8\x34\x01" + wide(words, false), 0, "token ids of llm.c", ids},
      {with("MMIDIDX\0\0"sv), 7, "an index of Megatron's tokens", ids},
      {with("SQLite format 3\0"sv), 15, "an SQLite database", none},
      {with("version https://git-lfs.example/spec/v1\n"sv), 0, "a pointer of Git LFS", "git lfs pull"},
      {with("\x7F\x45LF\x02"sv), 0, "a program (ELF)", none},
      {with("\x89PNG\r\n\x1A\n"sv), 0, "a picture (PNG)", none},
      {"\xFF\xFE" + wide("words", false), 0, "text in UTF-16", "iconv -f UTF-16 -t UTF-8"},
      {wide("words", false), 1, "text in UTF-16", "iconv -f UTF-16 -t UTF-8"},
      {wide("words", true), 0, "text in UTF-16", "iconv -f UTF-16 -t UTF-8"},
      {wide("'()*+,-./0123456789", false), 1, "binary data (token ids of nanoGPT or Megatron?)", ids},
      {noise, noise.find_first_of("\x01\x02\x03\x04\x05\x06\x7F\x80\xFF"), "binary data", ids},
      {words + std::string(200, '\xE9') + words, words.size(), "text in another encoding", "iconv -f ISO-8859-1"},
      {words + "\x01\x02\x03" + words + std::string(1, '\0'), words.size(), "binary data", ids},
  };
  for (const Row& row : rows) {
    const std::string said = refusal(write("file", row.content));
    EXPECT_THAT(said, HasSubstr(path("file") + ": byte " + std::to_string(row.at) + " is 0x")) << row.looks;
    EXPECT_THAT(said, HasSubstr("no text, it looks like " + row.looks));
    EXPECT_THAT(said, HasSubstr(row.cure));
    EXPECT_THAT(said, HasSubstr("; allowed: UTF-8 text, or data.tokenizer = raw for the bytes of any file"));
  }
  options_.val_source = write("val.bin", std::string("words\0and more", 14));
  EXPECT_THAT(refusal(write("a.txt", words)), HasSubstr("val.bin: byte 5 is 0x00: no text"));
  options_.val_source.clear();
  options_.tokenizer = Tokenizer::raw;
  for (const Row& row : rows) EXPECT_EQ(open(write("file", row.content)).vocab_size, 256U) << row.looks;
}

/// A zero is found wherever it is; other signs of a binary file at the beginning and every few MiB.
TEST_F(Sources, AFileIsNoTextIfALaterPartIsNone) {
  options_.tokenizer = Tokenizer::bytes;
  const std::size_t block = std::size_t{4} << 20U;
  std::string text(2 * block + 100, 'a');
  EXPECT_EQ(open(write("a.txt", text)).vocab_size, 256U);
  text[block + block / 2] = '\0';
  EXPECT_THAT(refusal(write("a.txt", text)), HasSubstr("byte " + std::to_string(block + block / 2) + " is 0x00: no text"));
  text[block + block / 2] = 'a';
  for (std::size_t i = 0; i < 200; ++i) text[block + 1000 + i] = '\xE9';
  EXPECT_THAT(refusal(write("a.txt", text)), HasSubstr("byte " + std::to_string(block + 1000) + " is 0xE9: no text"));
}

TEST_F(Sources, TextsThatAreNotPerfectAreText) {
  options_.tokenizer = Tokenizer::bytes;
  std::string words;
  for (int i = 0; i < 500; ++i) words += "plain words\r\n";
  const std::string broken = words + "\xFF\xE9!" + words + "\x01" + words;        // a few bad bytes of many
  const std::string cut = "\x82\xAC" + words + "\xE2\x82";                        // a part of a text, cut within characters
  const std::string colours = "\x1B[31mred\x1B[0m\f\b\a\t\v";                     // of a terminal
  const std::string marked = "\xEF\xBB\xBFwords", letters = "MZ GIF89 BZh PAR1";  // a byte order mark; begins like a program
  for (const std::string& text : {words, broken, cut, colours, marked, letters, std::string("caf\xE9 ")}) {
    const Dataset data = open(write("a.txt", text));
    EXPECT_EQ(data.vocab_size, 256U);
    EXPECT_EQ(sample(*data.train, 0)[1], static_cast<unsigned char>(text[1]));
  }
}

class Tokenize : public FilesTest {};

TEST_F(Tokenize, WhatIsNoTextOnlyByItsBytes) {
  const std::string ids = write("train.bin", std::string("\x05\0\x07\0\x09\0", 6)), output = path("out.h5");
  EXPECT_THAT([&] { shoal::data::tokenize({ids}, Tokenizer::bytes, "", output); },
              ThrowsMessage<shoal::Error>(HasSubstr("train.bin: byte 0 is 0x05: no text")));
  EXPECT_FALSE(std::filesystem::exists(output));
  EXPECT_EQ(shoal::data::tokenize({ids}, Tokenizer::raw, "", output).tokens, 6U);
}

TEST_F(Tokenize, WritesWhatOpenReads) {
  // One of several arguments may have a comma in its name.
  const std::string text = write("a, b.txt", "hello wörld\n"), more = write("b.txt", "hello\n");
  for (const Tokenizer tokenizer : {Tokenizer::bytes, Tokenizer::chars}) {
    const std::string file = path(std::string(shoal::name_of(tokenizer)) + ".h5");
    const shoal::data::TokenizeCounts counts = shoal::data::tokenize({text, more}, tokenizer, "", file);
    const bool bytes = tokenizer == Tokenizer::bytes;
    EXPECT_EQ(counts.files, 2U);
    EXPECT_EQ(counts.bytes, 19U);
    EXPECT_EQ(counts.tokens, bytes ? 19U : 18U);
    EXPECT_EQ(counts.vocab_size, bytes ? 256U : 10U);
    DataOptions options;
    options.val_fraction = 0;
    options.source = file;
    const Dataset data = shoal::data::open(options, 0, counts.tokens - 1, 1);
    EXPECT_EQ(shoal::data::decode(data.vocabulary, sample(*data.train, 0, counts.tokens - 1)), "hello wörld\nhello\n");
  }
}

TEST_F(Tokenize, LeavesNothingBehindWhenItFails) {
  const std::string text = write("a.txt", "abc"), output = path("out.h5");
  shoal::data::tokenize({text}, Tokenizer::chars, "", path("abc.h5"));
  const auto run = [&](const std::string& input, const std::string& to) {
    return [&, input, to] { shoal::data::tokenize({input}, Tokenizer::chars, path("abc.h5"), to); };
  };
  EXPECT_THAT(run(write("d.txt", "abcd"), output), ThrowsMessage<shoal::Error>(HasSubstr("d.txt: byte 3: \"d\" (U+0064)")));
  EXPECT_FALSE(std::filesystem::exists(output));
  EXPECT_FALSE(std::filesystem::exists(output + ".partial"));
  EXPECT_THAT(run(text, path("abc.h5")),
              ThrowsMessage<shoal::Error>(HasSubstr("exists; allowed: another name, or --output.overwrite")));
  EXPECT_THAT(run(path("abc.h5"), output), ThrowsMessage<shoal::Error>(HasSubstr("a tokens file already")));
  EXPECT_THAT(run(text, path("no/out.h5")), ThrowsMessage<shoal::Error>(HasSubstr("no such directory")));
  EXPECT_NO_THROW(run(text, output)());
}

}  // namespace of_tokens_test
