// SPDX-License-Identifier: Apache-2.0
// What a model asks of whoever keeps its states: when are a unit's parameters here, and where does its gradient go? The
// model calls; zero/ answers, and no rank, shard or message is seen here.
//
// What may be relied on, for a model that was made for a capacity and runs it (tests/model/visits_test.cpp):
// - forward() and then backward() acquire units in the order of model::use_order(); evaluate() and logits() in that of its
//   forward half. A visit begins where nothing is acquired and ends when all is released.
// - backward() completes each unit's gradient once, from the last unit to the first, and begins it in the unit's last visit
//   (that of the embedding, which backward does not acquire, after all visits). Two are begun in forward: the head's, where
//   it makes one there (none is completed before it), and those of units with UnitLayout::early_gradient.
// - A unit whose activations are computed again is acquired for that too, in the same visit as for its backward or in one of
//   its own before.
#pragma once

namespace shoal::model {

class UnitAccess {
 public:
  virtual ~UnitAccess() = default;

  /// The unit's flat buffer of parameters in the model's dtype, whole, until release(). Calls nest per unit (a head that
  /// borrows the embedding acquires it too).
  virtual const void* acquire(int unit) = 0;
  virtual void release(int unit) = 0;

  /// Where the micro-batch's gradient of the unit goes: the flat buffer in float, to be overwritten (its gaps are zero).
  /// The same memory from the first call until gradient_complete(). Holds garbage from an earlier micro-batch.
  virtual float* gradient(int unit) = 0;
  /// All of the unit's gradient is written; its reduction may begin.
  virtual void gradient_complete(int unit) = 0;
};

}  // namespace shoal::model
