// SPDX-License-Identifier: Apache-2.0
// Anything as a checkpoint: a good seal around wrong content, a damaged one around any; refused with one line, or datasets
// whose data lie within the file.
#include "any_file.hpp"
#include "shoal/io/checkpoint.hpp"
#include "src/io/seal.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shoal;
  fuzz::Bytes bytes(data, size);
  const fuzz::MemoryFile file;
  std::vector<io::Extent> raw;
  {
    fuzz::AnyFile h5(bytes, file.path());
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
  }
  fuzz::damage_heaps(bytes, file);
  try {
    io::seal(file.path(), raw);
  } catch (const Error&) {  // what was never written has no place in the file
    return 0;
  }
  if (bytes.one_in(2)) {
    const std::uint64_t seal = std::min<std::uint64_t>(file.size(), 40 + 16 * raw.size());
    fuzz::damage(bytes, file, file.size() - seal, seal);
  }
  if (bytes.one_in(8)) file.cut(bytes.below(file.size() + 1));
  fuzz::must_be_read_or_refused(file, [&] {
    for (const io::CheckpointDataset& dataset : io::verify_checkpoint(file.path()).datasets) {
      if (dataset.offset + dataset.elements() * sizeof(float) > file.size()) std::abort();
    }
  });
  return 0;
}
