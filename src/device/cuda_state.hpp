// SPDX-License-Identifier: Apache-2.0
// What the parts of the CUDA device share.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "shoal/device/queue.hpp"
#include "shoal/device/unit.hpp"

namespace shoal::device::cuda {

/// Fails unless the call has succeeded, with one line that names the call, its error and the GPU.
void check(cudaError_t status, const char* call);

/// Bytes of the GPU's memory that are free before this process has used it; none if that cannot be known.
std::optional<std::uint64_t> free_before_use(const std::array<std::uint8_t, 16>& identity);

/// Makes the queues, when the GPU is chosen.
void start_queues();
cudaStream_t stream_of(Queue queue);
/// Shows the regions of the trace to NVIDIA's profilers.
void show_regions();
/// Whether open() has chosen a GPU.
bool is_open();

/// Memory of the host that stands for an arena in messages, if the library that sends them does not reach arenas. All of it
/// is reserved, but only what messages use is memory, which is pinned when it is first used. No copy may have bytes of two
/// pieces (for_each_piece()).
class MessageMemory {
 public:
  /// Messages of one buffer are neighbours, and pinning memory takes long: a large piece at a time.
  static constexpr std::size_t piece = std::size_t{4} << 20U;

  explicit MessageMemory(std::size_t bytes);
  ~MessageMemory();
  MessageMemory(const MessageMemory&) = delete;
  MessageMemory& operator=(const MessageMemory&) = delete;
  /// The address of these bytes.
  std::byte* at(std::size_t first, std::size_t bytes);

 private:
  std::byte* begin_;
  std::size_t bytes_;
  std::vector<bool> pinned_;  // by piece
};

}  // namespace shoal::device::cuda
