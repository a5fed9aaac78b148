// SPDX-License-Identifier: Apache-2.0
// The callbacks by which a model gets the parameters of a unit and a buffer for its gradient. The model calls them and zero/
// implements them, so that a model does not depend on ranks, shards or messages.
//
// A model, or a part of one, that runs batches of its whole capacity guarantees (tests/model/use_order_test.cpp,
// parts_test.cpp):
// - forward() and backward() acquire units in the orders of model::use_orders(). evaluate() and logits() acquire them in
//   that of forward(). A use begins when nothing is acquired, and ends when everything is released.
// - For each micro-batch they complete the gradient of each unit once, from the last unit to the first: forward() that of
//   the head (before it that of its copy of the embedding), whose backward follows the losses in the same use, and
//   backward() all others. They first ask for a unit's gradient buffer in the last use of this unit. There are two
//   exceptions: backward does not use the embedding, and asks for its gradient after all uses; forward asks for the
//   gradients of units with UnitLayout::early_gradient in the head's use, before any gradient is completed.
// - A unit whose activations are computed again is also acquired for that: in the same use as for its backward, or in an
//   earlier one.
#pragma once

namespace shoal::model {

class UnitAccess {
 public:
  virtual ~UnitAccess() = default;

  /// Returns the unit's whole flat buffer of parameters in the model's dtype, which is valid until release(). A unit may be
  /// acquired several times at once, and then must be released as often. (A tied head also acquires the embedding or its
  /// copy.)
  virtual const void* acquire(int unit) = 0;
  virtual void release(int unit) = 0;

  /// Returns the flat buffer, in float, for the unit's gradient of this micro-batch. The model must overwrite all tensors,
  /// which hold values of an earlier micro-batch; the gaps are zero. All calls until gradient_complete() return the same
  /// memory.
  virtual float* gradient(int unit) = 0;
  /// The unit's whole gradient has been written, so its reduction may begin.
  virtual void gradient_complete(int unit) = 0;
};

}  // namespace shoal::model
