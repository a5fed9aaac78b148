// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "nccl_over_mpi.hpp"
#include "shoal/base/error.hpp"

namespace shoal::test::nccl {

namespace {

template <typename Number>
Number number_in(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  require(error == std::errc() && end == text.data() + text.size(), "SHOAL_NCCL_DOUBLE: not a number: ", text);
  return number;
}

void apply(std::string_view word, Settings& settings) {
  const std::size_t colon = word.find(':');
  const std::string_view name = word.substr(0, colon);
  const std::string_view value = colon == std::string_view::npos ? "" : word.substr(colon + 1);
  if (name == "delay") return void(settings.delay = true);
  if (name == "serial") return void(settings.serial = true);
  if (name == "connections") return void(settings.connections = true);
  if (name == "stuck-init") return void(settings.stuck_init = true);
  if (name == "stuck-split") return void(settings.stuck_split = true);
  if (name == "forbidden") return void(settings.forbidden = true);
  if (name == "die") return void(settings.die = number_in<std::uint64_t>(value));
  if (name == "stop") return void(settings.stop = number_in<std::uint64_t>(value));
  if (name == "block") return void(settings.block = number_in<std::uint64_t>(value));
  if (name == "version") return void(settings.version = number_in<int>(value));
  fail("SHOAL_NCCL_DOUBLE: no such word: ", word);
}

Settings of_environment() {
  Settings settings;
  const char* const given = std::getenv("SHOAL_NCCL_DOUBLE");
  int own = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &own);
  for (std::string_view rest = given == nullptr ? "" : given; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const std::size_t at = part.find('@');
    if (at == std::string_view::npos || number_in<int>(part.substr(at + 1)) == own) apply(part.substr(0, at), settings);
  }
  return settings;
}

}  // namespace

const Settings& settings() {
  static const Settings all = of_environment();
  return all;
}

}  // namespace shoal::test::nccl
