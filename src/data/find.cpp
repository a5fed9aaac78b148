// SPDX-License-Identifier: Apache-2.0
// Finds the files of the options, checks tokens files, and reads text.
#include <algorithm>
#include <optional>
#include <utility>

#include "found_source.hpp"
#include "shoal/base/error.hpp"
#include "shoal/data/tokenize.hpp"
#include "shoal/data/tokens.hpp"
#include "source_files.hpp"
#include "text_tokenizer.hpp"
#include "token_stream.hpp"

namespace shoal::data {

namespace {

using Files = std::vector<std::filesystem::path>;

/// A source and, of text, its packed tokens.
struct Read {
  FoundSource source;
  std::vector<std::byte> text;
};

/// The files must have the same layout and vocabulary.
Read of_token_files(const Files& files) {
  FoundSource source;
  source.name = name_of(files);
  std::size_t size = 0;
  for (const std::filesystem::path& path : files) {
    const io::TokenFile file(path);
    if (source.files.empty()) {
      source.vocab_size = file.vocab_size();
      source.vocabulary = file.vocabulary();
    }
    source.files.push_back(file.layout());
    require_input(file.row_length() == source.files[0].row_length, path.string(), ": another layout than ",
                  files[0].string(), " (/tokens, or /samples with rows of one length)");
    require_input(file.vocab_size() == source.vocab_size && file.vocabulary() == source.vocabulary, path.string(),
                  ": another vocabulary (", file.vocab_size(), " symbols) than ", files[0].string(), " (", source.vocab_size,
                  ")");
    size += file.size();
  }
  const std::size_t row = source.files[0].row_length;
  source.description =
      text(source.name, ": ", size, row == 0 ? std::string(" tokens") : text(" samples of ", row, " tokens"), ", ",
           source.vocab_size, " symbols");
  return {std::move(source), {}};
}

Read of_text(const Files& files, const TextTokenizer& tokenizer) {
  FoundSource source;
  source.name = name_of(files);
  source.vocabulary = tokenizer.vocabulary();
  source.vocab_size = source.vocabulary.size();
  PackedTokens tokens(source.vocab_size);
  tokens.reserve(bytes_of(files));
  std::vector<std::int32_t> ids;
  for (const std::filesystem::path& file : files) {
    for_each_block(file, [&](std::string_view block, std::size_t offset) {
      ids.clear();
      tokenizer.encode(block, file, offset, ids);
      tokens.append(ids);
    });
  }
  source.description = text(source.name, ": ", bytes_of(files), " bytes, ", tokenizer.description());
  return {std::move(source), tokens.take_bytes()};
}

TextTokenizer make_tokenizer(const DataOptions& options, const Files& files) {
  if (options.vocabulary.empty()) return {options.tokenizer, files};
  return {options.tokenizer, read_vocabulary(options.vocabulary), options.vocabulary};
}

Read read_training(const DataOptions& options, const Files& files, bool is_text) {
  if (is_text) return of_text(files, make_tokenizer(options, files));
  Read read = of_token_files(files);
  const bool of_use = options.tokenizer == DataOptions().tokenizer || !options.val_source.empty();
  if (!of_use) {
    read.source.description +=
        text(" (data.tokenizer = ", shoal::name_of(options.tokenizer), " is not used: it holds tokens)");
  }
  return read;
}

/// Validation text is read with the vocabulary of the training text; tokens files must have that vocabulary.
Read read_validation(const DataOptions& options, const FoundSource& train) {
  const Files files = find_files("data.val_source", options.val_source);
  if (!are_token_files("data.val_source", files)) {
    require_input(!train.vocabulary.empty(), "data.val_source: ", files.front().string(), " is text, but ", train.name,
                  " has no vocabulary to read it with");
    return of_text(files, {options.tokenizer, train.vocabulary, train.name});
  }
  Read read = of_token_files(files);
  Vocabulary& own = read.source.vocabulary;
  require_input(
      read.source.vocab_size == train.vocab_size && (own == train.vocabulary || own.empty() || train.vocabulary.empty()),
      "data.val_source: ", read.source.name, ": another vocabulary (", read.source.vocab_size, " symbols) than ", train.name,
      " (", train.vocab_size, ")");
  own.clear();  // the training text's is used
  return read;
}

}  // namespace

Found find(const DataOptions& options) {
  const bool drawn = options.source == "synthetic";
  const Files files = drawn ? Files{} : find_files("data.source", options.source);
  const bool is_text = !drawn && !are_token_files("data.source", files);
  require_input(is_text || options.vocabulary.empty(), "data.vocabulary is for text; data.source = ", options.source,
                " has its own");
  require_input(!drawn || options.val_source.empty(), "data.val_source = ", options.val_source,
                ": data.source = synthetic is validated on its own text (data.val_fraction)");
  Found found;
  if (drawn) return found;
  Read train = read_training(options, files, is_text);
  if (!options.val_source.empty()) {
    Read validation = read_validation(options, train.source);
    found.validation = pack_source(validation.source);
    found.validation_text = std::move(validation.text);
  }
  found.train = pack_source(train.source);
  found.train_text = std::move(train.text);
  return found;
}

std::optional<std::size_t> text_bytes(const DataOptions& options, std::size_t vocab_size) {
  if (options.source == "synthetic") return 0;
  std::size_t tokens = 0;  // a byte is at most one
  try {
    for (const std::string& source : {options.source, options.val_source}) {
      if (source.empty()) continue;
      const Files files = find_files("data.source", source);
      if (!are_token_files("data.source", files)) tokens += bytes_of(files);
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  return tokens * PackedTokens::bytes_per_token(vocab_size);
}

}  // namespace shoal::data
