// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/nccl_living.hpp"

#include <algorithm>

#include "shoal/base/error.hpp"

namespace shoal::comm {

void LivingCommunicators::add(ncclComm_t communicator) {
  const std::lock_guard lock(mutex_);
  all_.push_back(communicator);
}

/// Errors would be some of many.
void LivingCommunicators::abort(const std::vector<ncclComm_t>& first) noexcept {
  const std::lock_guard lock(mutex_);
  int version = 0;
  const bool together = ncclGetVersion(&version) == ncclSuccess && version >= NCCL_VERSION(2, 22, 3);
  if (together) ncclGroupStart();
  const auto abort = [&](ncclComm_t communicator) {
    if (std::erase(all_, communicator) > 0) ncclCommAbort(communicator);
  };
  for (ncclComm_t const communicator : first) abort(communicator);
  while (!all_.empty()) abort(all_.front());
  if (together) ncclGroupEnd();
}

void LivingCommunicators::end(ncclComm_t communicator) {
  const std::lock_guard lock(mutex_);
  if (std::erase(all_, communicator) > 0) ncclCommDestroy(communicator);
}

LivingCommunicators& living() {
  static LivingCommunicators all;
  return all;
}

int loaded_nccl() {
  int version = 0;
  const ncclResult_t asked = ncclGetVersion(&version);
  require(asked == ncclSuccess, "ncclGetVersion: ", ncclGetErrorString(asked));
  return version;
}

bool keeps_order_of_launches() { return loaded_nccl() >= NCCL_VERSION(2, 26, 2); }

std::string nccl_version_text(int code) { return text(code / 10000, '.', code / 100 % 100, '.', code % 100); }

}  // namespace shoal::comm
