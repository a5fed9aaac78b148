// SPDX-License-Identifier: Apache-2.0
// Memory of the host through which messages pass if the library that sends them does not reach the GPU's.
#include <sys/mman.h>

#include <algorithm>
#include <exception>

#include "cuda_state.hpp"
#include "shoal/base/error.hpp"

namespace shoal::device::cuda {

MessageMemory::MessageMemory(std::size_t bytes) : begin_(nullptr), bytes_(bytes), pinned_((bytes + piece - 1) / piece) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(at != MAP_FAILED, "cannot reserve ", bytes, " bytes of addresses for messages");
  begin_ = static_cast<std::byte*>(at);
}

/// While an exception unwinds the stack, the memory is left to the end of the process, as arenas are.
MessageMemory::~MessageMemory() {
  if (std::uncaught_exceptions() > 0) return;
  for (std::size_t i = 0; i < pinned_.size(); ++i) {
    if (pinned_[i]) cudaHostUnregister(begin_ + i * piece);  // an error here would have no effect
  }
  munmap(begin_, bytes_);
}

std::byte* MessageMemory::at(std::size_t first, std::size_t bytes) {
  for (std::size_t i = first / piece; i * piece < first + bytes; ++i) {
    if (pinned_[i]) continue;
    const std::size_t size = std::min(piece, bytes_ - i * piece);
    check(cudaHostRegister(begin_ + i * piece, size, cudaHostRegisterDefault), "cudaHostRegister");
    pinned_[i] = true;
  }
  return begin_ + first;
}

}  // namespace shoal::device::cuda
