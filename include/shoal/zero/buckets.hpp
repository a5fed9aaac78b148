// SPDX-License-Identifier: Apache-2.0
// How gradients are cut into messages: each takes the same sub-range of every rank's shard, so that a reduce-scatter of it
// ends with the owner. Large units are cut, small ones joined.
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/base/types.hpp"
#include "shoal/comm/reducer.hpp"
#include "shoal/model/unit.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::zero {

/// Elements sub.begin .. sub.end-1 of every rank's shard of one unit.
struct Part {
  int unit;
  Range sub;
};

struct Bucket {
  std::vector<Part> parts;
  int last_unit = 0;         ///< the message is complete when this unit's gradient is
  std::size_t elements = 0;  ///< of all ranks' blocks together
};

/// Messages of at most `most` elements (at least one piece per rank), in the order in which backward completes units: last
/// unit first, the embedding's at the end. `order` lists the units so.
std::vector<Bucket> make_buckets(const std::vector<model::UnitLayout>& units, const std::vector<int>& order, int ranks,
                                 std::size_t most);

/// The elements of a unit's flat buffer that `part` takes from rank d's shard.
Range block_of(const Part& part, std::size_t unit_elements, int rank, int ranks);

/// What a reducer must know of the bucket to say how much scratch memory it needs.
comm::MessageBounds bounds_of(const Bucket& bucket, const std::vector<ShardLayout>& layouts, int ranks);

/// A whole buffer as one message: every rank's shard of it is its block.
comm::Blocks shard_blocks(Span<std::byte> whole, std::size_t element_bytes, int ranks);

/// Where a message's blocks lie: span_of(unit, range) of each part, by rank.
template <typename SpanOf>
comm::Blocks bucket_blocks(const Bucket& bucket, const std::vector<ShardLayout>& layouts, int ranks, const SpanOf& span_of) {
  comm::Blocks blocks(static_cast<std::size_t>(ranks));
  for (int d = 0; d < ranks; ++d) {
    for (const Part& part : bucket.parts) {
      const Range range = block_of(part, layouts[static_cast<std::size_t>(part.unit)].elements, d, ranks);
      if (!range.empty()) blocks[static_cast<std::size_t>(d)].push_back(span_of(part.unit, range));
    }
  }
  return blocks;
}

}  // namespace shoal::zero
