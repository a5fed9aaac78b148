// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <utility>

#include "io/files/files.hpp"
#include "io/tokens/token_checks.hpp"
#include "shoal/base/error.hpp"
#include "shoal/io/token_file.hpp"

namespace shoal::io {

static_assert(std::endian::native == std::endian::little);

namespace {

std::string dataset_of(const TokenLayout& layout) {
  return text(layout.path.string(), layout.row_length != 0 ? ": /samples" : ": /tokens");
}

}  // namespace

void require_range(const TokenLayout& layout, std::size_t first, std::size_t count) {
  const bool rows = layout.row_length != 0;
  require(first < layout.size && (rows ? count == layout.row_length : count <= layout.size - first), dataset_of(layout),
          ": ", count, " tokens from ", first, " on do not exist");
}

void require_in_vocabulary(const TokenLayout& layout, std::size_t first, Span<const std::int32_t> tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<std::uint32_t>(tokens[i]);
    if (id < layout.vocab_size) continue;
    const std::string place = layout.row_length != 0 ? text(first, ", ", i) : text(first + i);
    throw Error(
        Exit::bad_input, Seen::here,
        text(dataset_of(layout), "[", place, "] = ", id, ": not in the vocabulary (vocab_size = ", layout.vocab_size, ")"));
  }
}

TokenReader::TokenReader(TokenLayout layout) : layout_(std::move(layout)) {
  if (layout_.width == 0) {
    file_ = std::make_unique<TokenFile>(layout_.path);
  } else {
    raw_ = std::make_unique<File>(layout_.path, File::Mode::read);
  }
}

TokenReader::TokenReader(TokenReader&&) noexcept = default;
TokenReader::~TokenReader() = default;

void TokenReader::read(std::size_t first, Span<std::int32_t> tokens) const {
  if (file_ != nullptr) return file_->read(first, tokens);
  require_range(layout_, first, tokens.size());
  const std::uint64_t place = layout_.offset + first * std::max<std::size_t>(layout_.row_length, 1) * layout_.width;
  if (layout_.width == sizeof(std::int32_t)) {
    raw_->read(place, std::as_writable_bytes(tokens));
  } else {
    std::vector<std::uint16_t> narrow(tokens.size());
    raw_->read(place, std::as_writable_bytes(Span<std::uint16_t>(narrow)));
    std::copy(narrow.begin(), narrow.end(), tokens.begin());
  }
  require_in_vocabulary(layout_, first, tokens);
}

}  // namespace shoal::io
