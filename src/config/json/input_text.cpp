// SPDX-License-Identifier: Apache-2.0
#include "shoal/config/input_text.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "shoal/base/error.hpp"

namespace shoal::config {

namespace {

SharedInputs::Share& share_of_process() {
  static SharedInputs::Share share;
  return share;
}

InputText read_here(const std::string& path, const std::string& wanted, const std::string& kind) {
  constexpr std::uintmax_t largest = 1U << 20U;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {{}, "no such file; expected " + wanted};
  if (!std::filesystem::is_regular_file(path, error)) return {{}, "not a file; expected " + wanted};
  if (std::filesystem::file_size(path, error) > largest) return {{}, "too large for a " + kind + "; allowed: at most 1 MiB"};
  std::ifstream file(path, std::ios::binary);
  if (!file) return {{}, text("cannot be opened: ", std::strerror(errno))};
  return {{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}, {}};
}

constexpr char is_text = 't', is_problem = 'p';  // the first character of what one rank reads for all

}  // namespace

InputText read_input(const std::string& path, const std::string& wanted, const std::string& kind) {
  const SharedInputs::Share& share = share_of_process();
  if (!share) return read_here(path, wanted, kind);
  const std::string read = share(path, [&] {
    const InputText input = read_here(path, wanted, kind);
    return input.problem.empty() ? is_text + input.text : is_problem + input.problem;
  });
  if (read.front() == is_text) return {read.substr(1), {}};
  return {{}, read.substr(1)};
}

SharedInputs::SharedInputs(Share share) { share_of_process() = std::move(share); }
SharedInputs::~SharedInputs() { share_of_process() = nullptr; }

}  // namespace shoal::config
