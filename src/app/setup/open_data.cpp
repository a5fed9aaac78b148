// SPDX-License-Identifier: Apache-2.0
#include "app/setup/open_data.hpp"

#include <utility>

#include "app/support/collective.hpp"

namespace shoal::app {

data::Dataset open_data(comm::Communicator& group, const config::Options& options) {
  data::Found found;
  on_rank_0(group, [&] { found = data::find(options.data); });
  if (group.size() > 1) {
    broadcast_all_of(group, found.train, 0);
    broadcast_all_of(group, found.validation, 0);
    broadcast_all_of(group, found.train_text, 0);
    broadcast_all_of(group, found.validation_text, 0);
  }
  data::Dataset dataset;
  on_all_ranks(group, [&] {
    dataset =
        data::open(options.data, std::move(found), options.model.vocab_size, options.model.block_size, options.train.seed);
  });
  return dataset;
}

void set_vocab_size(config::Options& options) {
  std::size_t& vocab_size = options.model.vocab_size;
  if (vocab_size == 0) vocab_size = data::open(options.data, 0, options.model.block_size, options.train.seed).vocab_size;
}

}  // namespace shoal::app
