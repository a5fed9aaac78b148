// SPDX-License-Identifier: Apache-2.0
// Tokens in memory or in files, read from any position: one running text, or rows of a fixed length.
#pragma once

#include <cstdint>
#include <filesystem>
#include <variant>
#include <vector>

#include "shoal/base/types.hpp"
#include "shoal/data/vocabulary.hpp"
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

/// A running text in memory, with one byte per token if the vocabulary allows it.
class PackedTokens : public TokenStream {
 public:
  explicit PackedTokens(std::size_t vocab_size);
  void reserve(std::size_t tokens);
  void append(Span<const std::int32_t> tokens);
  std::size_t size() const override;
  std::size_t row_length() const override { return 0; }
  void read(std::size_t first, Span<std::int32_t> tokens) const override;

 private:
  std::variant<std::vector<std::uint8_t>, std::vector<std::int32_t>> tokens_;
};

/// Several tokens files, one after another, read on demand. They must have the same layout and vocabulary.
class FileTokens : public TokenStream {
 public:
  explicit FileTokens(const std::vector<std::filesystem::path>& files);
  std::size_t vocab_size() const { return files_.front().vocab_size(); }
  const Vocabulary& vocabulary() const { return files_.front().vocabulary(); }
  std::size_t size() const override { return begins_.back(); }
  std::size_t row_length() const override { return files_.front().row_length(); }
  void read(std::size_t first, Span<std::int32_t> tokens) const override;

 private:
  std::vector<io::TokenFile> files_;
  std::vector<std::size_t> begins_;  ///< first token of each file, and the total
};

}  // namespace shoal::data
