// SPDX-License-Identifier: Apache-2.0
#include "device/simulated/simulated_settings.hpp"

#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "shoal/base/error.hpp"

namespace shoal::device::simulated {

namespace {

/// Returns true if the text is a number and nothing else.
template <typename Number>
bool read(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

/// As launchers of MPI programs tell it, since this layer knows no MPI. 0 if none does.
std::uint32_t rank_of_environment() {
  std::uint32_t rank = 0;
  for (const char* const name : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}) {
    const char* const given = std::getenv(name);
    if (given != nullptr && read(given, rank)) break;
  }
  return rank;
}

}  // namespace

Simulation simulation_of_environment() {
  const char* const given = std::getenv("SHOAL_SIMULATE");
  const std::string_view text = given == nullptr ? "late" : given;
  if (text == "late") return {Order::late};
  if (text == "in-order") return {Order::in_order};
  constexpr std::string_view prefix = "seed:";
  Simulation drawn{Order::drawn, 0, rank_of_environment()};
  require_input(text.starts_with(prefix) && read(text.substr(prefix.size()), drawn.seed), "SHOAL_SIMULATE=", text,
                ": allowed: in-order, late, seed:N with N = 0, 1, 2, ...");
  return drawn;
}

}  // namespace shoal::device::simulated
