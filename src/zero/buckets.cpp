// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/buckets.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "shoal/base/error.hpp"
#include "shoal/zero/partition.hpp"

namespace shoal::zero {

namespace {

constexpr std::size_t most_buckets = 131072;  // enough for a model of 800 G parameters in buckets of 25 MB

/// Number of elements of the sub-range over all ranks. All shards have the same length, except a shorter last one.
std::size_t elements_of(Range sub, std::size_t unit_elements, std::size_t shard) {
  const std::size_t whole = unit_elements / shard, rest = unit_elements % shard;
  return whole * sub.size() + std::min(std::max(rest, sub.begin), sub.end) - sub.begin;
}

void check_count(const std::vector<model::UnitLayout>& units, const std::vector<int>& order, int ranks, std::size_t most,
                 std::size_t per_shard) {
  std::size_t length = 0;
  for (const int u : order) length += shard_length(units[static_cast<std::size_t>(u)].elements, ranks);
  require_input(length / per_shard < most_buckets, "comm.bucket_mb: in messages of ",
                std::max(most, granule) * sizeof(float), " bytes this model is ", length / per_shard,
                " of them; allowed: ", most_buckets, " at most");
}

}  // namespace

Sweeps sweep_of_all(std::size_t units) {
  std::vector<int> backwards(units);
  std::iota(backwards.rbegin(), backwards.rend(), 0);
  return {backwards};
}

Sweeps sweeps_of(const std::vector<model::Part>& parts, const std::vector<model::UnitLayout>& units) {
  if (parts.empty()) return sweep_of_all(units.size());
  std::size_t head = units.size() - 1;
  while (units[head].copy_of) --head;
  Sweeps sweeps;
  for (std::size_t p = parts.size(); p-- > 0;) {
    const model::Part& part = parts[p];
    const Range own = part.units.empty() ? Range{0, units.size()} : part.units;
    sweeps.emplace_back();
    for (std::size_t unit = own.end; unit-- > own.begin;) {
      sweeps.back().push_back(static_cast<int>(unit));
      if (unit == head && unit > own.begin && part.slots > 1) sweeps.emplace_back();
    }
  }
  return sweeps;
}

Range block_of(const BucketPiece& part, std::size_t unit_elements, int rank, int ranks) {
  const Range shard = shard_of(unit_elements, rank, ranks);
  return intersection(shard, {shard.begin + part.sub.begin, shard.begin + part.sub.end});
}

comm::MessageBounds bounds_of(const Bucket& bucket, const std::vector<ShardLayout>& layouts, int ranks) {
  comm::MessageBounds bounds{bucket.elements, 0, bucket.parts.size()};
  for (const BucketPiece& part : bucket.parts) {  // no rank's shard is longer than rank 0's
    bounds.block_elements += block_of(part, layouts[static_cast<std::size_t>(part.unit)].elements, 0, ranks).size();
  }
  return bounds;
}

comm::Blocks shard_blocks(Span<std::byte> whole, std::size_t element_bytes, int ranks) {
  comm::Blocks blocks(static_cast<std::size_t>(ranks));
  for (int d = 0; d < ranks; ++d) {
    const Range shard = shard_of(whole.size() / element_bytes, d, ranks);
    if (!shard.empty()) {
      blocks[static_cast<std::size_t>(d)] = {whole.subspan(shard.begin * element_bytes, shard.size() * element_bytes)};
    }
  }
  return blocks;
}

std::vector<Bucket> make_buckets(const std::vector<model::UnitLayout>& units, const std::vector<int>& order, int ranks,
                                 std::size_t most) {
  const auto size = static_cast<std::size_t>(ranks);
  const std::size_t per_shard = std::max(granule, most / size / granule * granule);  // elements of one shard in a bucket
  check_count(units, order, ranks, most, per_shard);
  std::vector<Bucket> buckets;
  std::size_t room = 0;  // elements of a shard that the last bucket still takes
  for (const int u : order) {
    const std::size_t elements = units[static_cast<std::size_t>(u)].elements;
    const std::size_t length = shard_length(elements, ranks);
    for (std::size_t begin = 0; begin < length;) {
      if (room == 0) {
        buckets.emplace_back();
        room = per_shard;
      }
      Bucket& bucket = buckets.back();
      const BucketPiece part{u, {begin, std::min(length, begin + room)}};
      bucket.parts.push_back(part);
      bucket.last_unit = u;
      bucket.elements += elements_of(part.sub, elements, length);
      room -= part.sub.size();
      begin = part.sub.end;
    }
  }
  return buckets;
}

std::vector<Bucket> without_copies(const std::vector<Bucket>& buckets, const std::vector<model::UnitLayout>& units,
                                   int ranks) {
  std::vector<Bucket> result;
  for (const Bucket& bucket : buckets) {
    Bucket left;
    for (const BucketPiece& part : bucket.parts) {
      const model::UnitLayout& unit = units[static_cast<std::size_t>(part.unit)];
      if (unit.copy_of) continue;
      left.parts.push_back(part);
      left.last_unit = part.unit;
      left.elements += elements_of(part.sub, unit.elements, shard_length(unit.elements, ranks));
    }
    if (!left.parts.empty()) result.push_back(left);
  }
  return result;
}

PublishedBuckets published_buckets(const std::vector<model::UnitLayout>& units, const std::vector<ShardLayout>& layouts,
                                   int ranks, std::size_t most) {
  std::vector<int> order;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (layouts[u].published) order.push_back(static_cast<int>(u));
  }
  PublishedBuckets published{make_buckets(units, order, ranks, most), std::vector<std::size_t>(units.size(), 0)};
  for (std::size_t m = 0; m < published.buckets.size(); ++m) {
    for (const BucketPiece& part : published.buckets[m].parts)
      published.before_use[static_cast<std::size_t>(part.unit)] = m + 1;
  }
  return published;
}

std::vector<Bucket> buckets_of_sweeps(const std::vector<model::UnitLayout>& units, const Sweeps& sweeps, int ranks,
                                      std::size_t most) {
  std::vector<Bucket> buckets;
  for (const std::vector<int>& sweep : sweeps) {
    std::vector<Bucket> more = make_buckets(units, sweep, ranks, most);
    std::move(more.begin(), more.end(), std::back_inserter(buckets));
  }
  return buckets;
}

}  // namespace shoal::zero
