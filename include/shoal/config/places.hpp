// SPDX-License-Identifier: Apache-2.0
// The place where each option was set, so that messages can name it.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace shoal::config {

/// The place of each option that was set: "inputs/a.cfg:14", "command line".
class Places {
 public:
  void set(const std::string& option, const std::string& place) { places_[option] = place; }
  /// Empty if the option has its default.
  std::string of(std::string_view option) const;

  /// Returns the sentence with the places of the options that it names: "a.cfg:3: model.n_embd = 32 is not a multiple of
  /// model.n_head = 3 [line 2]; ...". The sentence begins with the place of the first option that was set; the places of
  /// others follow in brackets, if they differ. Returns the sentence unchanged if none of its options was set.
  std::string locate(const std::string& sentence) const;

 private:
  std::map<std::string, std::string, std::less<>> places_;
};

}  // namespace shoal::config
