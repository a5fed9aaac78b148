// SPDX-License-Identifier: Apache-2.0
#include "token_stream.hpp"

#include <algorithm>

#include "shoal/base/error.hpp"

namespace shoal::data {

PackedTokens::PackedTokens(std::size_t vocab_size, std::vector<std::byte> bytes) : PackedTokens(vocab_size) {
  bytes_ = std::move(bytes);
}

void PackedTokens::reserve(std::size_t tokens) { bytes_.reserve(tokens * width_); }

void PackedTokens::append(Span<const std::int32_t> tokens) {
  if (width_ == 1) {
    for (const std::int32_t token : tokens) bytes_.push_back(static_cast<std::byte>(token));
  } else {
    const auto bytes = std::as_bytes(tokens);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
}

void PackedTokens::read(std::size_t first, Span<std::int32_t> tokens) const {
  require(first <= size() && tokens.size() <= size() - first, tokens.size(), " tokens from ", first, " on, of ", size());
  const auto bytes = Span<const std::byte>(bytes_).subspan(first * width_, tokens.size() * width_);
  if (width_ == 1) {
    std::transform(bytes.begin(), bytes.end(), tokens.begin(),
                   [](std::byte token) { return std::to_integer<std::int32_t>(token); });
  } else {
    std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(tokens).begin());
  }
}

FileTokens::FileTokens(const std::vector<io::TokenLayout>& files) : row_length_(files.front().row_length), begins_{0} {
  files_.reserve(files.size());
  for (const io::TokenLayout& file : files) {
    files_.emplace_back(file);
    begins_.push_back(begins_.back() + file.size);
  }
}

void FileTokens::read(std::size_t first, Span<std::int32_t> tokens) const {
  auto file = static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), first) - begins_.begin()) - 1;
  if (row_length() != 0) return files_.at(file).read(first - begins_[file], tokens);
  for (; !tokens.empty(); ++file) {
    const std::size_t here = std::min(tokens.size(), begins_.at(file + 1) - first);
    files_[file].read(first - begins_[file], tokens.first(here));
    first += here;
    tokens = tokens.subspan(here);
  }
}

}  // namespace shoal::data
