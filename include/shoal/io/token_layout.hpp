// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace shoal::io {

/// Where the tokens of a file are. One rank opens the file as HDF5, checks it, and tells the others.
struct TokenLayout {
  std::filesystem::path path;
  std::size_t size = 0;        ///< number of tokens in /tokens, or of rows in /samples
  std::size_t row_length = 0;  ///< tokens per row of /samples; 0 for /tokens
  std::size_t vocab_size = 0;
  std::size_t width = 0;     ///< bytes of a token, if all lie one behind another in the file, little-endian. 0: they lie in
                             ///< chunks, are compressed, or are big-endian, so that only HDF5 can read them
  std::uint64_t offset = 0;  ///< of the first token in the file, if width is not 0
};

}  // namespace shoal::io
