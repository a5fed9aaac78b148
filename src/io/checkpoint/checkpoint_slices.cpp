// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/checkpoint_slices.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <utility>

#include "io/files/hash.hpp"
#include "shoal/device/memory.hpp"

namespace shoal::io {

namespace {

constexpr std::size_t part_elements = std::size_t{1} << 16U;

/// Reads a part of a dataset, and hashes it while it is in the core's cache.
void read_part(const File& file, const CheckpointDataset& dataset, Range part, Span<float> values, ReadBack& seen) {
  file.read(dataset.offset + part.begin * sizeof(float), std::as_writable_bytes(values));
  const std::size_t first = (part.begin + checksum_piece - 1) / checksum_piece;
  const std::size_t end = part.end == dataset.elements() ? part.end : part.end / checksum_piece * checksum_piece;
  if (first * checksum_piece >= end) return;
  seen.sum += sum_of_pieces(values.subspan(first * checksum_piece - part.begin, end - first * checksum_piece), first);
  seen.pieces += (end + checksum_piece - 1) / checksum_piece - first;
}

/// Computes the mean over several datasets: their sum by the binary tree over their indices, as comm/tree_reduce.hpp adds
/// nodes, divided by their number. read(i, values) reads the i-th one.
template <typename Read>
void read_mean(std::size_t count, Span<float> values, const Read& read) {
  std::vector<std::vector<float>> sums;  // a binary counter: after term i, merge as often as i has trailing one bits
  for (std::size_t i = 0; i < count; ++i) {
    sums.emplace_back(values.size());
    read(i, Span<float>(sums.back()));
    const bool last = i + 1 == count;
    for (std::size_t merges = last ? sums.size() - 1 : static_cast<std::size_t>(std::countr_one(i)); merges > 0; --merges) {
      const std::vector<float> top = std::move(sums.back());
      sums.pop_back();
      std::transform(top.begin(), top.end(), sums.back().begin(), sums.back().begin(), std::plus<>());
    }
  }
  const auto divisor = static_cast<float>(count);
  std::transform(sums.front().begin(), sums.front().end(), values.begin(), [=](float sum) { return sum / divisor; });
}

/// Reads the elements from `begin` on of the datasets `places`, or their mean, part by part into memory of the host.
void read_values(const File& file, const Described& described, const std::vector<std::size_t>& places, std::size_t begin,
                 Span<float> values, std::vector<ReadBack>& seen) {
  for (std::size_t at = 0; at < values.size();) {
    // Parts end at the end of a checksum piece, so that only the ends of the slice can be within a piece.
    const std::size_t border = ((begin + at) / part_elements + 1) * part_elements;
    const Range part{begin + at, std::min(begin + values.size(), border)};
    const auto read = [&](std::size_t i, Span<float> into) {
      read_part(file, described.contents.datasets[places[i]], part, into, seen[places[i]]);
    };
    if (places.size() == 1) {
      read(0, values.subspan(at, part.size()));
    } else {
      read_mean(places.size(), values.subspan(at, part.size()), read);
    }
    at += part.size();
  }
}

}  // namespace

void read_slice(const File& file, const Described& described, const TensorSlice& slice, std::vector<ReadBack>& seen) {
  const std::vector<std::size_t> places = described.places(slice.dataset);
  const auto read = [&](Range range) {
    const Span<float> values = slice.values.subspan(range.begin - slice.range.begin, range.size());
    device::in_pieces(values, device::Access::write, part_elements, [&](std::size_t first, Span<float> piece) {
      read_values(file, described, places, range.begin + first, piece, seen);
    });
  };
  // From the first border between parts on, all pieces of a device's memory begin at one.
  const std::size_t border = std::min(slice.range.end, round_up(slice.range.begin, part_elements));
  read({slice.range.begin, border});
  read({border, slice.range.end});
}

}  // namespace shoal::io
