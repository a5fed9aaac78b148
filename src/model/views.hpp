// SPDX-License-Identifier: Apache-2.0
// Named tensors as views of the buffers that a UnitAccess provides.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shoal/base/trace.hpp"
#include "shoal/base/types.hpp"
#include "shoal/model/unit.hpp"
#include "shoal/model/unit_access.hpp"

namespace shoal::model {

/// The parameters of a unit: acquired by the constructor, released by the destructor.
template <typename T>
class Weights {
 public:
  Weights(UnitAccess& access, int unit, const UnitLayout& layout)
      : access_(access), unit_(unit), layout_(layout), base_(static_cast<const T*>(access.acquire(unit))) {}
  ~Weights() { access_.release(unit_); }
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;
  const T* operator[](std::size_t parameter) const { return base_ + layout_.parameters[parameter].offset; }

 private:
  UnitAccess& access_;
  int unit_;
  const UnitLayout& layout_;
  const T* base_;
};

/// The gradient buffers of a unit's tensors.
class Gradient {
 public:
  Gradient(UnitAccess& access, int unit, const UnitLayout& layout) : layout_(layout), base_(access.gradient(unit)) {}
  float* operator[](std::size_t parameter) const { return base_ + layout_.parameters[parameter].offset; }

 private:
  const UnitLayout& layout_;
  float* base_;
};

/// Attributes the events of the trace to this unit until the end of the scope.
class TracedUnit {
 public:
  explicit TracedUnit(int unit) { trace::set_unit(static_cast<std::int16_t>(unit)); }
  ~TracedUnit() { trace::set_unit(-1); }
  TracedUnit(const TracedUnit&) = delete;
  TracedUnit& operator=(const TracedUnit&) = delete;
};

}  // namespace shoal::model
