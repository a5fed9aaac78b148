// SPDX-License-Identifier: Apache-2.0
#include "open_data.hpp"

#include <utility>

#include "collective.hpp"

namespace shoal::app {

namespace {

void broadcast_bytes(comm::Communicator& group, std::vector<std::byte>& bytes) {
  std::uint64_t size = bytes.size();
  group.broadcast(comm::bytes_of(Span<std::uint64_t>(&size, 1)), 0).wait();
  bytes.resize(size);
  if (size > 0) group.broadcast(Span<std::byte>(bytes), 0).wait();
}

}  // namespace

data::Dataset open_data(comm::Communicator& group, const config::Options& options) {
  data::Found found;
  on_rank_0(group, [&] { found = data::find(options.data); });
  if (group.size() > 1) {
    found.train = broadcast_text(group, found.train, 0);
    found.validation = broadcast_text(group, found.validation, 0);
    broadcast_bytes(group, found.train_text);
    broadcast_bytes(group, found.validation_text);
  }
  data::Dataset dataset;
  on_all_ranks(group, [&] {
    dataset =
        data::open(options.data, std::move(found), options.model.vocab_size, options.model.block_size, options.train.seed);
  });
  return dataset;
}

}  // namespace shoal::app
