// SPDX-License-Identifier: Apache-2.0
// When a rank starts the messages in which updated parameters are gathered, and what waits for them.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "shoal/zero/buckets.hpp"
#include "zero/message_order.hpp"

namespace shoal::zero {

class PublishingOrder {
 public:
  /// in_background: messages are in flight while the model computes. They must not be if units are gathered before their
  /// uses, since those gathers take the same scratch memory.
  PublishingOrder(PublishedBuckets published, bool in_background)
      : published_(std::move(published)), in_background_(in_background), messages_(published_.buckets.size()) {}

  /// Starts the gather after an update. First waits for the gather of the update before, which uses the same memory.
  Calls restart() {
    Calls calls = messages_.wait_for_all();
    const auto add = [&](const Calls& more) { calls.insert(calls.end(), more.begin(), more.end()); };
    add(messages_.start());
    if (!in_background_) add(messages_.wait_for_all());
    return calls;
  }
  Calls before_use(int unit) { return messages_.wait_for(published_.before_use[static_cast<std::size_t>(unit)]); }
  Calls wait_for_all() { return messages_.wait_for_all(); }

  /// By message.
  const std::vector<Bucket>& buckets() const { return published_.buckets; }

 private:
  PublishedBuckets published_;
  bool in_background_;
  MessageSeries messages_;
};

}  // namespace shoal::zero
