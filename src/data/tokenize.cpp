// SPDX-License-Identifier: Apache-2.0
#include "shoal/data/tokenize.hpp"

#include "shoal/base/error.hpp"
#include "shoal/io/hdf5.hpp"
#include "shoal/io/target.hpp"
#include "shoal/io/token_file.hpp"
#include "source_files.hpp"
#include "text_tokenizer.hpp"

namespace shoal::data {

Vocabulary read_vocabulary(const std::filesystem::path& tokens_file) {
  const std::vector<std::filesystem::path> files = find_files("data.vocabulary", tokens_file.string());
  require_input(files.size() == 1 && io::is_hdf5(files.front()), "data.vocabulary: ", tokens_file.string(),
                ": not a tokens file (HDF5)");
  Vocabulary vocabulary = io::TokenFile(files.front()).vocabulary();
  require_input(!vocabulary.empty(), "data.vocabulary: ", tokens_file.string(), ": has no /vocabulary");
  return vocabulary;
}

TokenizeCounts tokenize(const std::vector<std::string>& inputs, Tokenizer tokenizer, const std::string& vocabulary,
                        const std::filesystem::path& output, bool overwrite) {
  io::require_target("", output, io::own_kind(io::FileKind::tokens), overwrite);
  const std::filesystem::path directory = output.has_parent_path() ? output.parent_path() : ".";
  require_input(std::filesystem::is_directory(directory), directory.string(), ": no such directory");
  std::vector<std::filesystem::path> files;
  for (const std::string& input : inputs) {
    const std::vector<std::filesystem::path> found = find_files("input", input);
    files.insert(files.end(), found.begin(), found.end());
  }
  require_input(!are_token_files("input", files), files.front().string(), ": is a tokens file already");
  const TextTokenizer reader = vocabulary.empty() ? TextTokenizer(tokenizer, files)
                                                  : TextTokenizer(tokenizer, read_vocabulary(vocabulary), vocabulary);
  TokenizeCounts counts{files.size(), bytes_of(files), 0, reader.vocabulary().size()};
  for (const std::filesystem::path& file : files) counts.tokens += reader.count(file);
  require_input(counts.tokens > 0, name_of(files), ": no text");

  io::TokenFileWriter writer(output, counts.tokens, counts.vocab_size, reader.vocabulary());
  std::vector<std::int32_t> ids;
  for (const std::filesystem::path& file : files) {
    for_each_block(file, [&](std::string_view block, std::size_t offset) {
      ids.clear();
      reader.encode(block, file, offset, ids);
      writer.append(ids);
    });
  }
  writer.finish();
  return counts;
}

}  // namespace shoal::data
