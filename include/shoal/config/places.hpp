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

 private:
  std::map<std::string, std::string, std::less<>> places_;
};

}  // namespace shoal::config
