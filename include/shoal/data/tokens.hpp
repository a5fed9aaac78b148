// SPDX-License-Identifier: Apache-2.0
// Sources of tokens: the synthetic text, text files, tokens files. A source has samples; batches are made in
// data/loader.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "shoal/base/types.hpp"
#include "shoal/data/vocabulary.hpp"

namespace shoal::data {

struct DataOptions {
  std::string source = "synthetic";        ///< or a path, a list of paths (comma), a pattern
  std::string val_source;                  ///< empty: a part of source
  Tokenizer tokenizer = Tokenizer::bytes;  ///< for text files
  std::string vocabulary;                  ///< a tokens file with the vocabulary for text; empty: the text's own
  double val_fraction = 0.1;
  bool shuffle = true;
  bool drop_last = false;
};

/// The samples of one split. Sample s is tokens [s T, s T + T]: T inputs, and the targets one position further; or it is row
/// s of /samples.
class Samples {
 public:
  virtual ~Samples() = default;
  virtual std::size_t count() const = 0;
  /// The T + 1 tokens of sample s < count().
  virtual void read(std::size_t s, Span<std::int32_t> tokens) const = 0;
};

/// The two splits of a source.
struct Dataset {
  std::unique_ptr<Samples> train, validation;  ///< validation is null if there is none
  std::size_t vocab_size = 0;                  ///< number of symbols that the data may contain
  Vocabulary vocabulary;
  std::string description;             ///< for the head of the log: "tinyshakespeare.txt: 1115394 bytes, 65 characters"
  std::optional<double> entropy_rate;  ///< best possible loss, in nats per token; only known for the synthetic text
};

/// Opens the source that the options name. vocab_size: that of the model; 0: that of the data (64 for the synthetic text).
/// block_size: T. Errors (missing, empty or too short files, tokens beyond the vocabulary, ...) name the file. Every rank
/// opens and reads by itself; nothing here communicates.
Dataset open(const DataOptions& options, std::size_t vocab_size, std::size_t block_size, std::uint64_t seed);

}  // namespace shoal::data
