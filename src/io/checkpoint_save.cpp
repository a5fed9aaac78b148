// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "agreement.hpp"
#include "checkpoint_layout.hpp"
#include "files.hpp"
#include "raw_write.hpp"
#include "shoal/io/checkpoint.hpp"

namespace shoal::io {

std::uint64_t save_checkpoint(comm::World& world, const std::filesystem::path& file, const CheckpointState& state,
                              const std::vector<TensorSlice>& tensors, IoMode mode) {
  comm::Communicator& group = world.all();
  Catalogue content = catalogue(group, tensors);
  std::vector<std::uint64_t> sums(tensors.size());
  std::transform(tensors.begin(), tensors.end(), sums.begin(), [](const TensorSlice& slice) { return checksum(slice); });
  const std::filesystem::path temporary = temporary_name(file);
  return or_remove(group, temporary, [&] {
    const std::uint64_t bytes = lay_out(group, temporary, state, content, tensors, sums);
    write_raw(world, temporary, raw_parts(content, tensors), mode);
    together_by_0(group, [&] { publish(temporary, file); });
    return bytes;
  });
}

}  // namespace shoal::io
