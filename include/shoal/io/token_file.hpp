// SPDX-License-Identifier: Apache-2.0
// Tokens files in HDF5: /tokens [n] (one text) or /samples [n, T + 1] (one sample per row) of uint16 or uint32, the
// attribute vocab_size of the file, and optionally the bytes of each token of the vocabulary, in one of two forms:
//   /vocabulary_bytes    uint8: the bytes of all tokens, one after another
//   /vocabulary_offsets  uint64 [tokens + 1]: where each token begins, and where the last one ends
// or, in files of older and of other programs, /vocabulary [tokens]: bytes of variable length (vlen of uint8, or strings).
//
// Each of these datasets may have an attribute checksum (hexadecimal string): the sum modulo 2^64 of XXH3_64bits(piece, seed
// = the piece's index) over pieces of 64 bytes, of which the last is filled up with zeros. The checksums of the vocabulary
// are compared when the file is opened; that of the tokens only by verify(), since it needs all tokens. Files that this
// program writes end with a seal (src/io/hdf5/seal.hpp) over everything but the tokens. A seal is checked before HDF5 opens
// the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "shoal/base/types.hpp"
#include "shoal/io/hdf5.hpp"
#include "shoal/io/token_layout.hpp"

namespace shoal::io {

class File;
class PieceSum;

/// Reads any part of a tokens file, never all of it at once, by HDF5.
class TokenFile {
 public:
  static constexpr std::size_t largest_vocabulary = std::numeric_limits<std::int32_t>::max();

  /// bad_input() that names the file and the dataset if the layout is not the one above.
  explicit TokenFile(const std::filesystem::path& file);

  const TokenLayout& layout() const { return layout_; }
  std::size_t size() const { return layout_.size; }
  std::size_t row_length() const { return layout_.row_length; }
  std::size_t vocab_size() const { return layout_.vocab_size; }
  const std::vector<std::string>& vocabulary() const { return vocabulary_; }  ///< empty if the file has none

  /// Reads the tokens first, first + 1, ... of /tokens, or the tokens of row `first` of /samples. If an id is not in the
  /// vocabulary, throws an Error (Exit::bad_input) that names its position.
  void read(std::size_t first, Span<std::int32_t> tokens) const;

  /// Reads all tokens and compares their checksum. bad_input() if it differs. Returns false if the file has no checksum.
  bool verify() const;

 private:
  void read_layout();
  void read_vocabulary();
  void verify_tokens() const;
  void require_whole(std::size_t first, std::size_t count, const std::string& where) const;
  void read_part(std::size_t first, std::size_t count, std::uint32_t* ids) const;

  TokenLayout layout_;
  hdf5::Handle file_, dataset_;
  std::size_t chunk_rows_ = 0;           ///< rows of a compressed chunk; 0: the tokens are not compressed
  mutable std::set<std::size_t> whole_;  ///< first rows of chunks that were checked
  std::vector<std::string> vocabulary_;
};

/// Reads tokens of a file that a rank has checked and described. Opens it as a plain file and reads nothing but the tokens
/// it is asked for, so that thousands of ranks do not read one file's metadata. If only HDF5 can read the tokens, it opens
/// the file by HDF5. On each node the path must name this file, or an exact copy.
class TokenReader {
 public:
  explicit TokenReader(TokenLayout layout);
  TokenReader(TokenReader&&) noexcept;
  ~TokenReader();
  /// As TokenFile::read().
  void read(std::size_t first, Span<std::int32_t> tokens) const;

 private:
  TokenLayout layout_;
  std::unique_ptr<File> raw_;        ///< if layout_.width is not 0
  std::unique_ptr<TokenFile> file_;  ///< otherwise
};

/// Writes /tokens part by part: uint16 for vocabularies of up to 65536 symbols, uint32 for larger ones. finish() gives the
/// file its name.
class TokenFileWriter {
 public:
  /// tokens: number of tokens that append() will receive in all. Reserves the disk space.
  TokenFileWriter(const std::filesystem::path& file, std::size_t tokens, std::size_t vocab_size,
                  const std::vector<std::string>& vocabulary);
  ~TokenFileWriter();
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;
  void append(Span<const std::int32_t> tokens);
  void finish();

 private:
  /// Removes the file unless it got its final name. Being a member, it also does so if the enclosing constructor throws.
  struct Temporary {
    std::filesystem::path path;
    ~Temporary();
  };

  std::filesystem::path path_;
  Temporary temporary_;
  template <typename T>
  void write_as(Span<const std::int32_t> tokens);

  std::unique_ptr<File> raw_;
  std::unique_ptr<PieceSum> sum_;  ///< checksum of the tokens
  std::uint64_t position_ = 0;     ///< offset of the next token in the file
  std::size_t expected_, written_ = 0, vocab_size_;
};

}  // namespace shoal::io
