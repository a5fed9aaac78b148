// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "io/checkpoint/checkpoint_layout.hpp"
#include "io/checkpoint/raw_write.hpp"
#include "io/files/agreement.hpp"
#include "io/files/files.hpp"
#include "shoal/io/checkpoint.hpp"

namespace shoal::io {

std::uint64_t save_checkpoint(comm::World& world, const std::filesystem::path& file, const CheckpointState& state,
                              const std::vector<TensorSlice>& tensors, IoMode mode) {
  comm::Communicator& group = world.all();
  Catalogue content = catalogue(group, tensors);
  std::vector<std::uint64_t> sums(tensors.size());
  const std::filesystem::path temporary = temporary_name(file);
  return or_remove(group, temporary, [&] {
    OpenLayout layout = lay_out(group, temporary, state, content, tensors);
    std::uint64_t bytes = 0;
    write_raw(world, temporary, &layout.raw, raw_parts(content, tensors, sums), mode,
              [&] { bytes = complete(group, temporary, layout, content, sums); });
    together_by_0(group, [&] { commit_file(temporary, file); });
    return bytes;
  });
}

}  // namespace shoal::io
