// SPDX-License-Identifier: Apache-2.0
// Converts token ids to text and back, given the bytes of each token.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/base/names.hpp"
#include "shoal/base/types.hpp"

namespace shoal::data {

/// data.tokenizer: what one token of a text is. bytes: a byte of UTF-8 text. chars: a Unicode code point of UTF-8 text. raw:
/// a byte of any file, text or not.
enum class Tokenizer : std::uint8_t { bytes, chars, raw };
inline constexpr std::array tokenizer_names = {Named{Tokenizer::bytes, "bytes"}, Named{Tokenizer::chars, "chars"},
                                               Named{Tokenizer::raw, "raw"}};
constexpr const auto& table_of(Tokenizer) { return tokenizer_names; }

/// The bytes of each token; empty if a tokens file contains no vocabulary. The bytes of a padding token are an empty string.
using Vocabulary = std::vector<std::string>;

/// The 256 tokens of one byte each.
Vocabulary byte_vocabulary();

/// The bytes of the tokens, one after another. An id beyond the vocabulary gives U+FFFD, the replacement character: a model
/// may have more symbols than its data.
std::string decode(const Vocabulary& vocabulary, Span<const std::int32_t> ids);

/// Splits text into tokens; at each position it takes the longest token that fits. For vocabularies of bytes and characters
/// this gives the tokens of the training text. For vocabularies of longer tokens (BPE) the tokens decode to the same text,
/// but may differ from those of the vocabulary's own tokenizer. Fails (bad_input) if no token fits, and names the position.
std::vector<std::int32_t> encode(const Vocabulary& vocabulary, std::string_view text);

}  // namespace shoal::data
