// SPDX-License-Identifier: Apache-2.0
// Buckets: the messages in which gradients are reduced and parameters gathered. A bucket takes the same sub-range of every
// rank's shard, so that its reduce-scatter leaves each sum on the rank that owns it. Large units are cut into several
// buckets, and small ones are joined in one.
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/base/types.hpp"
#include "shoal/comm/reducer.hpp"
#include "shoal/model/part.hpp"
#include "shoal/model/unit.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::zero {

/// A sweep lists units in the order in which backward completes their gradients. In each turn (accumulation.hpp) all units
/// of a sweep are completed before any of them begins the next turn; other sweeps may be turns ahead or behind. Where a
/// micro-batch's backward follows its forward at once, all units are one sweep.
using Sweeps = std::vector<std::vector<int>>;

/// One sweep of all units: backward completes the last unit first and the embedding last, even if a tied head begins the
/// embedding's gradient.
Sweeps sweep_of_all(std::size_t units);
/// The sweeps of a rank that computes these parts of a model: one of each part, the last part first; without parts that of
/// all units. The head, the last unit that is no copy, and the copies behind it are a sweep of their own if several turns
/// are between forward and backward: forward completes them.
Sweeps sweeps_of(const std::vector<model::Part>& parts, const std::vector<model::UnitLayout>& units);

/// Elements sub.begin .. sub.end-1 of every rank's shard of one unit.
struct BucketPiece {
  int unit;
  Range sub;
};

struct Bucket {
  std::vector<BucketPiece> parts;
  int last_unit = 0;         ///< the bucket can be reduced when this unit's gradient is complete
  std::size_t elements = 0;  ///< of the blocks of all ranks
};

/// Cuts the units into buckets of at most `most` elements, or one granule per rank if that is more. order: the units to be
/// sent, first to last.
std::vector<Bucket> make_buckets(const std::vector<model::UnitLayout>& units, const std::vector<int>& order, int ranks,
                                 std::size_t most);
/// The buckets of gradients, sweep by sweep. None has units of two sweeps, which may be in different turns.
std::vector<Bucket> buckets_of_sweeps(const std::vector<model::UnitLayout>& units, const Sweeps& sweeps, int ranks,
                                      std::size_t most);

/// The same messages without copies of other units; those that would be empty are left out.
std::vector<Bucket> without_copies(const std::vector<Bucket>& buckets, const std::vector<model::UnitLayout>& units,
                                   int ranks);

/// The messages in which the parameters of units that are ShardLayout::published are gathered after an update.
struct PublishedBuckets {
  std::vector<Bucket> buckets;
  std::vector<std::size_t> before_use;  ///< by unit: number of buckets that must have arrived before it is used
};
PublishedBuckets published_buckets(const std::vector<model::UnitLayout>& units, const std::vector<ShardLayout>& layouts,
                                   int ranks, std::size_t most);

/// Elements of the unit's flat buffer that `part` takes from the shard of `rank`.
Range block_of(const BucketPiece& part, std::size_t unit_elements, int rank, int ranks);

/// Sizes of the bucket, from which the scratch memory of a reducer follows.
comm::MessageBounds bounds_of(const Bucket& bucket, const std::vector<ShardLayout>& layouts, int ranks);

/// Blocks of a message that is a whole buffer: each rank's block is its shard.
comm::Blocks shard_blocks(Span<std::byte> whole, std::size_t element_bytes, int ranks);

/// Blocks of a bucket. span_of(unit, range): the memory of these elements of the unit on this rank.
template <typename SpanOf>
comm::Blocks bucket_blocks(const Bucket& bucket, const std::vector<ShardLayout>& layouts, int ranks, const SpanOf& span_of) {
  comm::Blocks blocks(static_cast<std::size_t>(ranks));
  for (int d = 0; d < ranks; ++d) {
    for (const BucketPiece& part : bucket.parts) {
      const Range range = block_of(part, layouts[static_cast<std::size_t>(part.unit)].elements, d, ranks);
      if (!range.empty()) blocks[static_cast<std::size_t>(d)].push_back(span_of(part.unit, range));
    }
  }
  return blocks;
}

}  // namespace shoal::zero
