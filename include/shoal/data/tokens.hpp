// SPDX-License-Identifier: Apache-2.0
// Sources of tokens: the synthetic text, text files, tokens files. A source has samples; batches are made in
// data/loader.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

/// The files that the options name, as one rank found them. The others get a copy, so that of thousands of ranks only one
/// lists directories, reads the metadata of tokens files, and reads text. Nothing here communicates.
struct Found {
  std::string train, validation;                       ///< bytes for open(); empty: the synthetic text, no val_source
  std::vector<std::byte> train_text, validation_text;  ///< packed tokens of text; of tokens files nothing
};
/// Errors (missing, empty or damaged files, text beyond the vocabulary, ...) name the file.
Found find(const DataOptions& options);

/// How many bytes of text each rank will hold in memory, at most; 0 for tokens files, which stay on the disk. Reads no text.
/// vocab_size: that of the model. std::nullopt if a file is missing or cannot be read.
std::optional<std::size_t> text_bytes(const DataOptions& options, std::size_t vocab_size);

/// Opens on each rank what one of them has found. vocab_size: that of the model; 0: that of the data (64 for the synthetic
/// text). block_size: T. Opens tokens files only to read tokens from them later, and reads no file now. Errors (too little
/// text for a sample, a file that one rank cannot open, ...) name the file.
Dataset open(const DataOptions& options, Found found, std::size_t vocab_size, std::size_t block_size, std::uint64_t seed);
/// The same on a single rank, which finds the files itself.
Dataset open(const DataOptions& options, std::size_t vocab_size, std::size_t block_size, std::uint64_t seed);

}  // namespace shoal::data
