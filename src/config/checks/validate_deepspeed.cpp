// SPDX-License-Identifier: Apache-2.0
// The keys of a DeepSpeed configuration whose meaning depends on the number of ranks and on the model.
#include <algorithm>

#include "config/checks/validate.hpp"
#include "shoal/base/error.hpp"
#include "shoal/model/model.hpp"

namespace shoal::config {

namespace {

constexpr std::size_t most_samples = 4294967295;

bool is_set(const Invocation& invocation, const char* option) { return !invocation.places.of(option).empty(); }

/// Two of global batch, micro-batch and accumulation define the third. A global batch alone is divided into one micro-batch
/// per rank.
std::vector<std::string> batch(Invocation& invocation, std::size_t ranks) {
  BatchOptions& batch = invocation.options.batch;
  const std::size_t given = invocation.deepspeed_rest.accumulation, times = std::max<std::size_t>(given, 1);
  const bool micro = is_set(invocation, "batch.micro"), global = is_set(invocation, "batch.global") && batch.global != 0;
  const std::string by = given == 0 ? "" : text(" x gradient_accumulation_steps (", given, ")");
  if (global && !micro) {
    if (batch.global % (times * ranks) != 0) {
      return {text("batch.global = ", batch.global, " cannot be divided among the ranks: it is not a multiple of ranks (",
                   ranks, ")", by)};
    }
    batch.micro = batch.global / times / ranks;
    return {};
  }
  if (given == 0 || !micro) return {};
  const bool overruled =
      invocation.places.of("batch.micro") == "command line" && invocation.places.of("batch.global") == "command line";
  if (overruled) return {};
  const bool too_many = batch.micro > most_samples / times || batch.micro * times > most_samples / ranks;
  const std::string product = text("batch.micro (", batch.micro, ")", by, " x ranks (", ranks, ")");
  if (too_many) return {product + " is more than " + text(most_samples) + " sequences"};
  const std::size_t all = batch.micro * times * ranks;
  if (global && batch.global != all) return {text("batch.global = ", batch.global, " is not ", product, " = ", all)};
  batch.global = all;
  return {};
}

/// DeepSpeed counts the elements that it prefetches; here units are counted: as many as have that many elements, but at
/// least one.
void prefetch(Invocation& invocation) {
  const DeepSpeedRest& rest = invocation.deepspeed_rest;
  if (!rest.prefetch_elements || is_set(invocation, "zero.prefetch_units")) return;
  model::ModelOptions model = invocation.options.model;
  model.vocab_size = std::max<std::size_t>(model.vocab_size, 2);
  if (!model::problems(model).empty()) return;  // reported elsewhere
  const std::vector<model::UnitLayout> units = model::layout(model);
  // The first and the last unit are the embedding and the head; prefetching matters for the blocks between them.
  const model::UnitLayout& unit = units.size() > 2 ? units[1] : units.front();
  const std::size_t wanted = *rest.prefetch_elements;
  invocation.options.zero.prefetch_units =
      wanted == 0 ? 0 : std::clamp<std::size_t>(wanted / std::max<std::size_t>(unit.elements, 1), 1, units.size());
  invocation.places.set("zero.prefetch_units", rest.prefetch_place);
  invocation.notes.push_back(text(rest.prefetch_place, ": ", wanted,
                                  " elements: zero.prefetch_units = ", invocation.options.zero.prefetch_units, "; unit ",
                                  unit.name, " has ", unit.elements, " elements"));
}

}  // namespace

std::vector<std::string> follow_deepspeed(Invocation& invocation, int ranks) {
  if (!invocation.deepspeed) return {};
  prefetch(invocation);
  return batch(invocation, static_cast<std::size_t>(ranks));
}

}  // namespace shoal::config
