// SPDX-License-Identifier: Apache-2.0
// The text of a deck or of a DeepSpeed configuration: read by every process, or by one for all.
#pragma once

#include <functional>
#include <string>

namespace shoal::config {

struct InputText {
  std::string text;
  std::string problem;  ///< why the file cannot be read; empty if it was
};

/// Reads a file of at most 1 MiB. wanted: "the path of a deck"; kind: "deck", both for the problem.
InputText read_input(const std::string& path, const std::string& wanted, const std::string& kind);

/// As long as it exists, read_input() gets its text from `share`, which calls `read` on one of the ranks and returns to all
/// of them what it returned there. All ranks must read the same files, in the same order.
class SharedInputs {
 public:
  using Share = std::function<std::string(const std::string& path, const std::function<std::string()>& read)>;
  explicit SharedInputs(Share share);
  ~SharedInputs();
  SharedInputs(const SharedInputs&) = delete;
  SharedInputs& operator=(const SharedInputs&) = delete;
};

}  // namespace shoal::config
