// SPDX-License-Identifier: Apache-2.0
// Where tokens come from: the embedded synthetic text, text files, tokens files. A source knows samples, not batches.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "shoal/base/types.hpp"
#include "shoal/data/vocabulary.hpp"

namespace shoal::data {

struct DataOptions {
  std::string source = "synthetic";        ///< or a path, a list of paths (comma), a pattern; told by its content
  std::string val_source;                  ///< empty: a part of source
  Tokenizer tokenizer = Tokenizer::bytes;  ///< for text files
  std::string vocabulary;                  ///< a tokens file whose vocabulary text is read with; empty: the text's own
  double val_fraction = 0.1;
  bool shuffle = true;
  bool drop_last = false;
};

/// The samples of one split: sample s is tokens [s T, s T + T] (T inputs, targets one further), or row s of /samples.
class Samples {
 public:
  virtual ~Samples() = default;
  virtual std::size_t count() const = 0;
  /// T + 1 tokens of sample s < count().
  virtual void read(std::size_t s, Span<std::int32_t> tokens) const = 0;
};

/// Both splits of a source.
struct Dataset {
  std::unique_ptr<Samples> train, validation;  ///< validation is null where there is none
  std::size_t vocab_size = 0;                  ///< symbols that the data may contain
  Vocabulary vocabulary;
  std::string description;             ///< for the banner: "tinyshakespeare.txt: 1115394 bytes, 65 characters"
  std::optional<double> entropy_rate;  ///< nats per token, the loss that no model can beat; synthetic text only
};

/// Opens what options name. vocab_size: the model's; 0 takes the data's (64 for synthetic). block_size = T. Errors (missing,
/// empty, too short, a token beyond the vocabulary, ...) name the file. Every rank opens and reads on its own; nothing
/// here communicates.
Dataset open(const DataOptions& options, std::size_t vocab_size, std::size_t block_size, std::uint64_t seed);

}  // namespace shoal::data
