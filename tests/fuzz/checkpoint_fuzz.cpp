// SPDX-License-Identifier: Apache-2.0
// Reads any HDF5 file as a checkpoint, with a valid or a damaged seal. It must be refused in one line, or the data of its
// datasets must be within the file.
#include "any_file.hpp"
#include "io/hdf5/seal.hpp"
#include "shoal/io/checkpoint.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shoal;
  fuzz::Bytes bytes(data, size);
  const fuzz::MemoryFile file;
  std::vector<io::Extent> raw;
  fuzz::make(bytes, file, [&](fuzz::AnyFile& h5) {
    const hid_t text = fuzz::AnyFile::text();
    h5.attribute(h5.id(), "format_version", H5T_STD_I8LE);
    h5.attribute(h5.id(), "program", text);
    h5.attribute(h5.id(), "step", H5T_STD_I64LE);
    h5.dataset("deck", text, 0);
    for (const char* const name : {"scalars", "numbers"}) {
      const hid_t group = H5Gcreate2(h5.id(), name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
      for (const char* const key : {"a", "b"}) h5.attribute(group, key, *name == 's' ? text : H5T_IEEE_F64LE);
      H5Gclose(group);
    }
    for (const char* const name : {"parameters/a", "parameters/b", "moments/first/a"}) {
      const auto [offset, length] = h5.dataset(name, H5T_IEEE_F32LE, static_cast<int>(bytes.below(3)), text);
      if (length > 0) raw.push_back({offset, length});
    }
    H5Tclose(text);
    return fuzz::Extent();
  });
  try {
    io::seal(file.path(), raw);
  } catch (const Error&) {  // the space of data that were never written may be beyond the file's end
    return 0;
  }
  if (bytes.one_in(2)) {
    const std::uint64_t seal = std::min<std::uint64_t>(file.size(), 40 + 16 * raw.size());
    fuzz::damage(bytes, file, {file.size() - seal, seal});
  }
  if (bytes.one_in(8)) file.cut(bytes.below(file.size() + 1));
  fuzz::must_be_read_or_refused(file, [&] {
    for (const io::CheckpointDataset& dataset : io::verify_checkpoint(file.path()).datasets) {
      if (dataset.offset + dataset.elements() * sizeof(float) > file.size()) std::abort();
    }
  });
  return 0;
}
