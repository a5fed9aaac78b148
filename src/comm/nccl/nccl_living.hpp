// SPDX-License-Identifier: Apache-2.0
// NCCL's communicators that are neither ended nor aborted, and how they end.
#pragma once

#include <nccl.h>

#include <mutex>
#include <string>
#include <vector>

namespace shoal::comm {

/// [Note: communicators are aborted together] ncclCommAbort() tells the kernels of its communicator to end, and waits until
/// they have. If one of them stands behind a kernel of another communicator, on a queue or in the order of launches, it
/// waits for that one first, which may wait for a rank that is gone: aborted one after another, communicators can hang. In a
/// group of calls NCCL 2.22.3 and newer tell all kernels before they wait for any. Older versions abort first what stands
/// first.
class LivingCommunicators {
 public:
  void add(ncclComm_t communicator);
  /// Aborts all. Any thread may call it. first: those to abort first, in this order, if that cannot be done together.
  void abort(const std::vector<ncclComm_t>& first = {}) noexcept;
  /// Ends a communicator whose operations are complete. An error here would have no effect.
  void end(ncclComm_t communicator);

 private:
  std::mutex mutex_;
  std::vector<ncclComm_t> all_;
};
LivingCommunicators& living();

/// Of the library that was loaded: 22809 is 2.28.9.
int loaded_nccl();
std::string nccl_version_text(int code);
/// Whether it obeys NCCL_LAUNCH_ORDER_IMPLICIT ([Note: one order of calls]).
bool keeps_order_of_launches();

}  // namespace shoal::comm
