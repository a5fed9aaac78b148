// SPDX-License-Identifier: Apache-2.0
// Checksums that do not depend on how tensors are cut over ranks.
#include <algorithm>

#include "io/files/hash.hpp"
#include "shoal/base/error.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/io/checkpoint.hpp"

namespace shoal::io {

std::uint64_t checksum(const TensorSlice& slice) {
  if (slice.range.empty()) return 0;
  require(slice.range.begin % checksum_piece == 0, slice.dataset, ": a slice begins at element ", slice.range.begin,
          ", not on a piece of ", checksum_piece);
  std::uint64_t sum = 0;
  device::in_pieces(slice.values, device::Access::read, checksum_piece, [&](std::size_t first, Span<float> piece) {
    sum += sum_of_pieces(piece, (slice.range.begin + first) / checksum_piece);
  });
  return sum;
}

std::uint64_t combine(const std::map<std::string, std::uint64_t>& checksums) {
  std::uint64_t sum = 0;
  for (const auto& [name, value] : checksums) {
    sum += xxh3(std::as_bytes(Span<const std::uint64_t>(&value, 1)), xxh3(std::as_bytes(Span<const char>(name))));
  }
  return sum;
}

std::uint64_t params_checksum(comm::Communicator& group, const std::vector<TensorSlice>& parameters) {
  std::vector<std::uint64_t> sums(parameters.size());
  std::transform(parameters.begin(), parameters.end(), sums.begin(),
                 [](const TensorSlice& slice) { return checksum(slice); });
  group.all_reduce(Span<std::uint64_t>(sums), comm::Reduce::sum).wait();
  constexpr std::string_view prefix = "/parameters/";
  std::map<std::string, std::uint64_t> by_name;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::string& name = parameters[i].dataset;
    by_name[name.starts_with(prefix) ? name.substr(prefix.size()) : name] += sums[i];
  }
  return combine(by_name);
}

}  // namespace shoal::io
