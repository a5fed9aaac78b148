// SPDX-License-Identifier: Apache-2.0
// Messages that name the places of the options that they mention.
#pragma once

#include <string>

#include "shoal/config/places.hpp"

namespace shoal::config {

/// Returns the sentence with the places of the options that it names: "a.cfg:3: model.n_embd = 32 is not a multiple of
/// model.n_head = 3 [line 2]; ...". The sentence begins with the place of the first option that was set; the places of
/// others follow in brackets, if they differ. Returns the sentence unchanged if none of its options was set.
std::string located(const std::string& sentence, const Places& places);

}  // namespace shoal::config
