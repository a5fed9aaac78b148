// SPDX-License-Identifier: Apache-2.0
#include "token_stream.hpp"

#include <algorithm>

#include "shoal/base/error.hpp"

namespace shoal::data {

PackedTokens::PackedTokens(std::size_t vocab_size) {
  if (vocab_size > 256) tokens_.emplace<std::vector<std::int32_t>>();
}

void PackedTokens::reserve(std::size_t tokens) {
  std::visit([&](auto& values) { values.reserve(tokens); }, tokens_);
}

void PackedTokens::append(Span<const std::int32_t> tokens) {
  std::visit([&](auto& values) { values.insert(values.end(), tokens.begin(), tokens.end()); }, tokens_);
}

std::size_t PackedTokens::size() const {
  return std::visit([](const auto& values) { return values.size(); }, tokens_);
}

void PackedTokens::read(std::size_t first, Span<std::int32_t> tokens) const {
  require(first <= size() && tokens.size() <= size() - first, tokens.size(), " tokens from ", first, " on, of ", size());
  std::visit(
      [&](const auto& values) {
        std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(first), tokens.size(), tokens.begin());
      },
      tokens_);
}

FileTokens::FileTokens(const std::vector<std::filesystem::path>& paths) : begins_{0} {
  files_.reserve(paths.size());
  for (const std::filesystem::path& path : paths) {
    const io::TokenFile& file = files_.emplace_back(path);
    const io::TokenFile& first = files_.front();
    require_input(file.row_length() == first.row_length(), path.string(), ": another layout than ", paths[0].string(),
                  " (/tokens, or /samples with rows of one length)");
    require_input(file.vocab_size() == first.vocab_size() && file.vocabulary() == first.vocabulary(), path.string(),
                  ": another vocabulary (", file.vocab_size(), " symbols) than ", paths[0].string(), " (",
                  first.vocab_size(), ")");
    begins_.push_back(begins_.back() + file.size());
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
