// SPDX-License-Identifier: Apache-2.0
// Reads any HDF5 file as a tokens file. It must be refused in one line, or its tokens must be below vocab_size, and it must
// not name more than vocab_size tokens.
#include "any_file.hpp"
#include "shoal/io/token_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shoal;
  fuzz::Bytes bytes(data, size);
  const fuzz::MemoryFile file;
  fuzz::make(bytes, file, [&](fuzz::AnyFile& h5) {
    fuzz::Extent references;
    const hid_t text = fuzz::AnyFile::text(), variable = bytes.one_in(2) ? H5Tvlen_create(H5T_STD_U8LE) : H5Tcopy(text);
    h5.attribute(h5.id(), "vocab_size", H5T_STD_U16LE);
    if (bytes.one_in(3)) {
      h5.dataset("samples", H5T_STD_U16LE, 2, text);
    } else {
      h5.dataset("tokens", bytes.one_in(2) ? H5T_STD_U16LE : H5T_STD_U32LE, 1, text);
    }
    if (bytes.one_in(2)) {
      references = h5.dataset("vocabulary", variable, 1);
    } else {
      h5.dataset("vocabulary_bytes", H5T_STD_U8LE, 1, text);
      h5.dataset("vocabulary_offsets", H5T_STD_U64LE, 1, text);
    }
    for (const hid_t type : {text, variable}) H5Tclose(type);
    return references;
  });
  fuzz::must_be_read_or_refused(file, [&] {
    const io::TokenFile tokens(file.path());
    if (tokens.vocabulary().size() > tokens.vocab_size()) std::abort();
    std::vector<std::int32_t> ids(tokens.row_length() != 0 ? tokens.row_length()
                                                           : std::min<std::size_t>(tokens.size(), 100));
    tokens.read(0, ids);
    for (const std::int32_t id : ids) {
      if (id < 0 || static_cast<std::size_t>(id) >= tokens.vocab_size()) std::abort();
    }
    std::vector<std::int32_t> same(ids.size());
    io::TokenReader(tokens.layout()).read(0, same);
    if (same != ids) std::abort();
    tokens.verify();
  });
  return 0;
}
