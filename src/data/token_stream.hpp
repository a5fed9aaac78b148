// SPDX-License-Identifier: Apache-2.0
// Tokens in memory or in files, read from any position: one running text, or rows of a fixed length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "shoal/base/types.hpp"
#include "shoal/io/token_file.hpp"

namespace shoal::data {

class TokenStream {
 public:
  virtual ~TokenStream() = default;
  /// Number of tokens of a running text, or of rows.
  virtual std::size_t size() const = 0;
  /// Number of tokens of a row; 0 for a running text.
  virtual std::size_t row_length() const = 0;
  /// Reads tokens first, first + 1, ..., or the tokens of row `first`.
  virtual void read(std::size_t first, Span<std::int32_t> tokens) const = 0;
};

/// A running text in memory, with one byte per token if the vocabulary allows it, otherwise four.
class PackedTokens : public TokenStream {
 public:
  static std::size_t bytes_per_token(std::size_t vocab_size) { return vocab_size > 256 ? sizeof(std::int32_t) : 1; }
  explicit PackedTokens(std::size_t vocab_size) : width_(bytes_per_token(vocab_size)) {}
  /// bytes: those of other PackedTokens for this vocabulary.
  PackedTokens(std::size_t vocab_size, std::vector<std::byte> bytes);
  void reserve(std::size_t tokens);
  void append(Span<const std::int32_t> tokens);
  /// Moves them out.
  std::vector<std::byte> take_bytes() { return std::move(bytes_); }
  std::size_t size() const override { return bytes_.size() / width_; }
  std::size_t row_length() const override { return 0; }
  void read(std::size_t first, Span<std::int32_t> tokens) const override;

 private:
  std::size_t width_;
  std::vector<std::byte> bytes_;
};

/// Several tokens files, one after another, read on demand.
class FileTokens : public TokenStream {
 public:
  /// files: those of one text, all with rows of the same length, or none with rows.
  explicit FileTokens(const std::vector<io::TokenLayout>& files);
  std::size_t size() const override { return begins_.back(); }
  std::size_t row_length() const override { return row_length_; }
  void read(std::size_t first, Span<std::int32_t> tokens) const override;

 private:
  std::size_t row_length_;
  std::vector<io::TokenReader> files_;
  std::vector<std::size_t> begins_;  ///< first token of each file, and the total
};

}  // namespace shoal::data
