// SPDX-License-Identifier: Apache-2.0
// From samples' sources to samples: draws the synthetic text or opens what was found, and splits it.
#include "shoal/data/tokens.hpp"

#include <cmath>
#include <iomanip>
#include <sstream>
#include <utility>

#include "data/markov.hpp"
#include "found_source.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/mpi_free.hpp"
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
  const MpiFree mpi_free;
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

/// text: the packed tokens, if the source is text.
Source open_source(FoundSource found, std::vector<std::byte> text) {
  Source source;
  if (found.files.empty()) {
    source.tokens = std::make_shared<PackedTokens>(found.vocab_size, std::move(text));
  } else {
    source.tokens = std::make_shared<FileTokens>(found.files);
  }
  source.name = std::move(found.name);
  source.vocab_size = found.vocab_size;
  source.vocabulary = std::move(found.vocabulary);
  source.description = std::move(found.description);
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

Dataset open(const DataOptions& options, Found found, std::size_t vocab_size, std::size_t block_size, std::uint64_t seed) {
  require_input(block_size > 0, "model.block_size = 0; allowed: at least 1");
  require_input(options.val_fraction >= 0 && options.val_fraction < 1, "data.val_fraction = ", options.val_fraction,
                "; allowed: 0 to less than 1");
  Source source = found.train.empty() ? synthetic(vocab_size, seed)
                                      : open_source(unpack_source(found.train), std::move(found.train_text));
  require_input(vocab_size == 0 || vocab_size >= source.vocab_size, source.name, ": ", source.vocab_size,
                " symbols, but model.vocab_size = ", vocab_size, "; allowed: 0 (take the data's), or at least ",
                source.vocab_size);

  Dataset dataset;
  const std::size_t n = source.tokens->size();
  if (!found.validation.empty()) {
    const Source validation = open_source(unpack_source(found.validation), std::move(found.validation_text));
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

Dataset open(const DataOptions& options, std::size_t vocab_size, std::size_t block_size, std::uint64_t seed) {
  return open(options, find(options), vocab_size, block_size, seed);
}

}  // namespace shoal::data
