// SPDX-License-Identifier: Apache-2.0
// Tokens in HDF5: /tokens [n] (one running text) or /samples [n, T + 1] (one sample a row) of uint16 or uint32, the
// attribute vocab_size of the file, and, where known, the bytes of each token, in one of two forms:
//   /vocabulary_bytes    uint8: those of all tokens, one after another
//   /vocabulary_offsets  uint64 [tokens + 1]: where each begins, and where the last ends
// or, as older and other programs write it, /vocabulary [tokens]: bytes of variable length (vlen of uint8, or strings).
//
// Each of these datasets may bear an attribute checksum (hexadecimal string): the sum modulo 2^64 of XXH3_64bits(piece, seed
// = the piece's index) over pieces of 64 bytes, the last one filled up with zeros. Those of the vocabulary are compared
// whenever the file is opened, that of the tokens, which would have all of them read, by verify(). What this program writes
// also ends with a seal (src/io/seal.hpp) over all that is not tokens; where there is one it is checked before HDF5 sees the
// file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "shoal/base/types.hpp"
#include "shoal/io/hdf5.hpp"

namespace shoal::io {

class File;
class PieceSum;

/// Whether the file begins with HDF5's signature. False for what is not a file.
bool is_hdf5(const std::filesystem::path& file);

/// Reads where it is asked to, never the whole file. Every rank opens it on its own.
class TokenFile {
 public:
  static constexpr std::size_t largest_vocabulary = std::numeric_limits<std::int32_t>::max();

  /// What does not keep to the layout above is an Error (bad_input) that names the file and the dataset.
  explicit TokenFile(const std::filesystem::path& file);

  std::size_t size() const { return size_; }              ///< tokens of /tokens, or rows of /samples
  std::size_t row_length() const { return row_length_; }  ///< tokens of a row of /samples; 0 where there is /tokens
  std::size_t vocab_size() const { return vocab_size_; }
  const std::vector<std::string>& vocabulary() const { return vocabulary_; }  ///< empty where the file has none

  /// Tokens first, first + 1, ... of /tokens, or the tokens of row `first`. An id beyond the vocabulary is an Error
  /// (bad_input) that names its place.
  void read(std::size_t first, Span<std::int32_t> tokens) const;

  /// Reads all tokens and compares their checksum: bad_input() when they are not what was written, false when the file has
  /// none.
  bool verify() const;

 private:
  void read_layout();
  void verify_tokens() const;
  void read_part(std::size_t first, std::size_t count, std::uint32_t* ids) const;

  std::filesystem::path path_;
  hdf5::Handle file_, dataset_;
  std::size_t size_ = 0, row_length_ = 0, vocab_size_ = 0;
  std::vector<std::string> vocabulary_;
};

/// Writes /tokens piece by piece: uint16 up to 65536 symbols, uint32 beyond. The file has its name only after finish().
class TokenFileWriter {
 public:
  /// tokens: how many append() will bring in all. The disk space is taken here.
  TokenFileWriter(const std::filesystem::path& file, std::size_t tokens, std::size_t vocab_size,
                  const std::vector<std::string>& vocabulary);
  ~TokenFileWriter();
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;
  void append(Span<const std::int32_t> tokens);
  void finish();

 private:
  /// Removed when it goes, unless it got its final name: also when the constructor fails half-way.
  struct Temporary {
    std::filesystem::path path;
    ~Temporary();
  };

  std::filesystem::path path_;
  Temporary temporary_;
  template <typename T>
  void write_as(Span<const std::int32_t> tokens);

  std::unique_ptr<File> raw_;
  std::unique_ptr<PieceSum> sum_;  ///< of the tokens
  std::uint64_t position_ = 0;     ///< in bytes, of the next token
  std::size_t expected_, written_ = 0, vocab_size_;
};

}  // namespace shoal::io
