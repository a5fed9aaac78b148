// SPDX-License-Identifier: Apache-2.0
// Token ids to text and back, given the bytes of each token.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/base/names.hpp"
#include "shoal/base/types.hpp"

namespace shoal::data {

/// data.tokenizer: what becomes one token of a text. chars: a Unicode code point of UTF-8 text.
enum class Tokenizer : std::uint8_t { bytes, chars };
inline constexpr std::array tokenizer_names = {Named{Tokenizer::bytes, "bytes"}, Named{Tokenizer::chars, "chars"}};
constexpr const auto& table_of(Tokenizer) { return tokenizer_names; }

/// The bytes of each token; empty where a tokens file brings none. A token without bytes (padding) is an empty string.
using Vocabulary = std::vector<std::string>;

/// 256 tokens of one byte each.
Vocabulary byte_vocabulary();

/// The bytes of the tokens one after another. An id beyond the vocabulary (a model may have more symbols than its data)
/// gives U+FFFD, the replacement character.
std::string decode(const Vocabulary& vocabulary, Span<const std::int32_t> ids);

/// Cuts text into tokens, at each place the longest that fits. For vocabularies of bytes and characters this is how the
/// training text was read; for those of longer tokens (BPE) it is a sequence that decodes to the same text, but not always
/// the one that their own tokenizer gives. Text that no token fits is an Error (bad_input) that names its place.
std::vector<std::int32_t> encode(const Vocabulary& vocabulary, std::string_view text);

}  // namespace shoal::data
