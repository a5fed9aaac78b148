// SPDX-License-Identifier: Apache-2.0
// From options to samples: opens the source, takes its vocabulary, splits it.
#include "shoal/data/tokens.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>
#include <utility>

#include "shoal/base/absence.hpp"
#include "shoal/base/error.hpp"
#include "shoal/data/markov.hpp"
#include "shoal/data/tokenize.hpp"
#include "source_files.hpp"
#include "text_tokenizer.hpp"
#include "token_stream.hpp"

namespace shoal::data {

namespace {

constexpr std::size_t synthetic_tokens = std::size_t{1} << 20U;
constexpr std::size_t synthetic_symbols = 64;

/// A source before it is split.
struct Source {
  std::shared_ptr<const TokenStream> tokens;
  std::string name;
  std::size_t vocab_size = 0;
  Vocabulary vocabulary;
  std::string description;
  std::optional<double> entropy_rate;
};

Source synthetic(std::size_t vocab_size, std::uint64_t seed) {
  const Absence absence;
  const MarkovChain chain(vocab_size == 0 ? synthetic_symbols : vocab_size, seed);
  Source source;
  source.name = "synthetic";
  source.vocabulary = chain.vocabulary();
  source.vocab_size = source.vocabulary.size();
  source.entropy_rate = chain.entropy_rate();
  auto tokens = std::make_shared<PackedTokens>(source.vocab_size);
  tokens->append(chain.draw(synthetic_tokens));
  source.tokens = std::move(tokens);
  std::ostringstream rate;
  rate << std::fixed << std::setprecision(4) << *source.entropy_rate;
  source.description = text("synthetic: ", synthetic_tokens, " tokens of a Markov chain, ", source.vocab_size,
                            " symbols, entropy rate ", rate.str(), " nats per token");
  return source;
}

Source from_token_files(const std::vector<std::filesystem::path>& files) {
  auto tokens = std::make_shared<FileTokens>(files);
  Source source;
  source.name = name_of(files);
  source.vocab_size = tokens->vocab_size();
  source.vocabulary = tokens->vocabulary();
  const std::size_t row = tokens->row_length();
  source.description =
      text(source.name, ": ", tokens->size(), row == 0 ? std::string(" tokens") : text(" samples of ", row, " tokens"), ", ",
           source.vocab_size, " symbols");
  source.tokens = std::move(tokens);
  return source;
}

Source from_text(const std::vector<std::filesystem::path>& files, const TextTokenizer& tokenizer) {
  Source source;
  source.name = name_of(files);
  source.vocabulary = tokenizer.vocabulary();
  source.vocab_size = source.vocabulary.size();
  auto tokens = std::make_shared<PackedTokens>(source.vocab_size);
  tokens->reserve(bytes_of(files));
  std::vector<std::int32_t> ids;
  for (const std::filesystem::path& file : files) {
    for_each_block(file, [&](std::string_view block, std::size_t offset) {
      ids.clear();
      tokenizer.encode(block, file, offset, ids);
      tokens->append(ids);
    });
  }
  source.tokens = std::move(tokens);
  source.description = text(source.name, ": ", bytes_of(files), " bytes, ", tokenizer.description());
  return source;
}

TextTokenizer make_tokenizer(const DataOptions& options, const std::vector<std::filesystem::path>& files) {
  if (options.vocabulary.empty()) return {options.tokenizer, files};
  return {options.tokenizer, read_vocabulary(options.vocabulary), options.vocabulary};
}

Source open_source(const DataOptions& options, std::size_t vocab_size, std::uint64_t seed) {
  const bool drawn = options.source == "synthetic";
  const std::vector<std::filesystem::path> files =
      drawn ? std::vector<std::filesystem::path>{} : find_files("data.source", options.source);
  const bool is_text = !drawn && !are_token_files("data.source", files);
  require_input(is_text || options.vocabulary.empty(), "data.vocabulary is for text; data.source = ", options.source,
                " has its own");
  if (drawn) return synthetic(vocab_size, seed);
  if (is_text) return from_text(files, make_tokenizer(options, files));
  Source source = from_token_files(files);
  const bool of_use = options.tokenizer == DataOptions().tokenizer || !options.val_source.empty();
  if (!of_use)
    source.description += text(" (data.tokenizer = ", shoal::name_of(options.tokenizer), " is not used: it holds tokens)");
  return source;
}

/// Validation text is read with the vocabulary of the training text; tokens files must have that vocabulary.
Source open_validation(const DataOptions& options, const Source& train) {
  require_input(!train.entropy_rate, "data.val_source = ", options.val_source,
                ": data.source = synthetic is validated on its own text (data.val_fraction)");
  const std::vector<std::filesystem::path> files = find_files("data.val_source", options.val_source);
  if (!are_token_files("data.val_source", files)) {
    require_input(!train.vocabulary.empty(), "data.val_source: ", files.front().string(), " is text, but ", train.name,
                  " has no vocabulary to read it with");
    return from_text(files, {options.tokenizer, train.vocabulary, train.name});
  }
  Source source = from_token_files(files);
  require_input(source.vocab_size == train.vocab_size &&
                    (source.vocabulary == train.vocabulary || source.vocabulary.empty() || train.vocabulary.empty()),
                "data.val_source: ", source.name, ": another vocabulary (", source.vocab_size, " symbols) than ", train.name,
                " (", train.vocab_size, ")");
  return source;
}

/// A part of a stream, divided into samples.
class StreamSamples : public Samples {
 public:
  /// part: a range of tokens of a running text, or of rows.
  StreamSamples(std::shared_ptr<const TokenStream> tokens, Range part, std::size_t block_size)
      : tokens_(std::move(tokens)), begin_(part.begin) {
    const bool rows = tokens_->row_length() != 0;
    stride_ = rows ? 1 : block_size;
    if (!part.empty()) count_ = rows ? part.size() : (part.size() - 1) / block_size;
  }
  std::size_t count() const override { return count_; }
  void read(std::size_t s, Span<std::int32_t> tokens) const override {
    require(s < count_, "sample ", s, " of ", count_);
    tokens_->read(begin_ + s * stride_, tokens);
  }

 private:
  std::shared_ptr<const TokenStream> tokens_;
  std::size_t begin_, stride_ = 0, count_ = 0;
};

/// what: "training split", for the message if it is too short.
std::unique_ptr<Samples> make_samples(const Source& source, Range part, std::size_t block_size, const std::string& what) {
  const std::size_t row = source.tokens->row_length();
  require_input(row == 0 || row == block_size + 1, source.name, ": /samples has rows of ", row,
                " tokens; model.block_size = ", block_size, " needs ", block_size + 1);
  auto samples = std::make_unique<StreamSamples>(source.tokens, part, block_size);
  require_input(samples->count() > 0, source.name, ": the ", what, " has ", part.size(), row == 0 ? " tokens" : " samples",
                "; one sample needs ", row == 0 ? text(block_size + 1, " tokens (model.block_size + 1)") : "a row");
  return samples;
}

}  // namespace

Dataset open(const DataOptions& options, std::size_t vocab_size, std::size_t block_size, std::uint64_t seed) {
  require_input(block_size > 0, "model.block_size = 0; allowed: at least 1");
  require_input(options.val_fraction >= 0 && options.val_fraction < 1, "data.val_fraction = ", options.val_fraction,
                "; allowed: 0 to less than 1");
  Source source = open_source(options, vocab_size, seed);
  require_input(vocab_size == 0 || vocab_size >= source.vocab_size, source.name, ": ", source.vocab_size,
                " symbols, but model.vocab_size = ", vocab_size, "; allowed: 0 (take the data's), or at least ",
                source.vocab_size);

  Dataset dataset;
  const std::size_t n = source.tokens->size();
  if (!options.val_source.empty()) {
    const Source validation = open_validation(options, source);
    dataset.train = make_samples(source, {0, n}, block_size, "training text");
    dataset.validation = make_samples(validation, {0, validation.tokens->size()}, block_size, "validation text");
  } else {
    const auto cut = static_cast<std::size_t>(std::floor((1.0 - options.val_fraction) * static_cast<double>(n)));
    dataset.train = make_samples(source, {0, cut}, block_size, "training split");
    if (cut < n) {
      dataset.validation =
          make_samples(source, {cut, n}, block_size,
                       text("validation split (data.val_fraction = ", options.val_fraction, " of ", n, "; 0 for none)"));
    }
  }
  dataset.vocab_size = source.vocab_size;
  dataset.vocabulary = std::move(source.vocabulary);
  dataset.description = std::move(source.description);
  dataset.entropy_rate = source.entropy_rate;
  return dataset;
}

}  // namespace shoal::data
