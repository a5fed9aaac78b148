// SPDX-License-Identifier: Apache-2.0
// The functions of each model: one row each in `registry`.
#include <array>
#include <limits>

#include "gpt.hpp"
#include "gpt_layout.hpp"
#include "mlp.hpp"
#include "shoal/base/error.hpp"
#include "shoal/model/costs.hpp"
#include "shoal/model/model.hpp"
#include "unit_costs.hpp"

namespace shoal::model {

namespace {

using Made = std::unique_ptr<Model>;

template <template <typename> class M>
Made make_as(const ModelOptions& options, DType dtype, const Capacity& capacity, std::uint64_t seed, Memory& memory,
             UnitAccess& access) {
  // The analyzer does not follow the unique_ptr of a derived class into that of its base.
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks)
  return dispatch(dtype,
                  [&]<typename T>(T) -> Made { return std::make_unique<M<T>>(options, capacity, seed, memory, access); });
}

struct Entry {
  ModelKind value;
  std::vector<UnitLayout> (*layout)(const ModelOptions&);
  UseOrders (*use_orders)(const ModelOptions&, const Capacity&);
  std::vector<std::string> (*problems)(const ModelOptions&);
  std::vector<UnitCost> (*costs)(const ModelOptions&, DType, const Capacity&);
  Made (*make)(const ModelOptions&, DType, const Capacity&, std::uint64_t, Memory&, UnitAccess&);
};

constexpr std::array registry = {
    Entry{ModelKind::gpt, gpt::layout, gpt::use_orders, gpt::problems, gpt::costs, make_as<Gpt>},
    Entry{ModelKind::mlp, mlp::layout, mlp::use_orders, mlp::problems, mlp::costs, make_as<Mlp>},
};
static_assert(in_order(registry) && registry.size() == model_kinds.size());

const Entry& entry(const ModelOptions& options) { return registry.at(static_cast<std::size_t>(options.kind)); }

}  // namespace

std::vector<UnitLayout> layout(const ModelOptions& options) {
  require(options.vocab_size > 0, "the model's vocabulary is not known yet");
  return entry(options).layout(options);
}

UseOrders use_orders(const ModelOptions& options, const Capacity& capacity) {
  return entry(options).use_orders(options, capacity);
}

UseOrder use_order(const ModelOptions& options, const Capacity& capacity) {
  UseOrders orders = use_orders(options, capacity);
  const UseOrder& backward = capacity.part.whole_slots > 0 ? orders.backward : orders.recomputing_backward;
  orders.forward.insert(orders.forward.end(), backward.begin(), backward.end());
  return orders.forward;
}

std::vector<std::string> problems(const ModelOptions& o) {
  std::vector<std::string> found;
  const auto at_least_1 = [&](const char* name, std::size_t value) {
    if (value == 0) found.push_back(text("model.", name, " = 0: must be at least 1"));
  };
  at_least_1("n_layer", o.n_layer);
  at_least_1("n_embd", o.n_embd);
  at_least_1("block_size", o.block_size);
  if (o.vocab_size > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    found.push_back(text("model.vocab_size = ", o.vocab_size, ": at most ", std::numeric_limits<std::int32_t>::max()));
  }
  if (!(o.dropout >= 0 && o.dropout < 1)) found.push_back(text("model.dropout = ", o.dropout, ": must be in [0, 1)"));
  if (!(o.layer_norm_epsilon > 0)) {
    found.push_back(text("model.layer_norm_epsilon = ", o.layer_norm_epsilon, ": must be greater than 0"));
  }
  const std::vector<std::string> own = entry(o).problems(o);
  found.insert(found.end(), own.begin(), own.end());
  return found;
}

std::vector<UnitCost> costs(const ModelOptions& options, DType dtype, const Capacity& capacity) {
  return entry(options).costs(options, dtype, capacity);
}

std::size_t parameter_count(const ModelOptions& options) {
  std::size_t count = 0;
  for (const UnitLayout& unit : layout(options)) count += unit.parameter_count();
  return count;
}

double flops_per_token(const ModelOptions& options) {
  double sum = 0;
  for (const UnitCost& unit : costs(options, DType::f32, {})) sum += unit.flops();
  return sum / static_cast<double>(options.block_size);
}

std::unique_ptr<Model> make(const ModelOptions& options, DType dtype, const Capacity& capacity, std::uint64_t seed,
                            Memory& memory, UnitAccess& access) {
  const std::vector<std::string> unmet = problems(options);
  require(unmet.empty(), unmet.empty() ? std::string() : unmet.front());
  return entry(options).make(options, dtype, capacity, seed, memory, access);
}

}  // namespace shoal::model
