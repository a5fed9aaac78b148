// SPDX-License-Identifier: Apache-2.0
// Where each option got its value, so that a message can say it.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace shoal::config {

/// Every value's place, for messages: "inputs/a.cfg:14", "command line".
class Places {
 public:
  void set(const std::string& option, const std::string& place) { places_[option] = place; }
  /// Empty where the option has its default.
  std::string of(std::string_view option) const;

  /// The sentence with the places of the options that it names: "a.cfg:3: model.n_embd = 32 is not a multiple of
  /// model.n_head = 3 [line 2]; ...". The first option that was set leads; others that were set elsewhere follow in
  /// brackets. Unchanged if none was set.
  std::string locate(const std::string& sentence) const;

 private:
  std::map<std::string, std::string, std::less<>> places_;
};

}  // namespace shoal::config
