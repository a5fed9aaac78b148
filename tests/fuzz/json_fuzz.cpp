// SPDX-License-Identifier: Apache-2.0
// Reads any bytes as a DeepSpeed configuration. Every problem and note must name its place in the file, every value must
// have a line, and every setting must be a value that its option allows.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "config/deepspeed/deepspeed.hpp"
#include "config/json/json.hpp"
#include "shoal/config/table.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shoal::config;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const JsonText json = parse_json_text(text, "fuzz.json");
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  for (const JsonEntry& entry : json.entries) {
    if (entry.line < 1 || entry.line > lines || entry.path.empty()) std::abort();
  }
  const DeepSpeedTranslation file = translate_deepspeed(json, "fuzz.json", Options(), Places());
  for (const auto* const messages : {&file.problems, &file.notes}) {
    for (const std::string& message : *messages) {
      if (!message.starts_with("fuzz.json:")) std::abort();
    }
  }
  for (const DeepSpeedSetting& setting : file.settings) {
    const Row* const row = find(setting.option);
    if (row == nullptr || !read(print(setting.value, row->allowed), row->allowed, setting.value, row->name).value)
      std::abort();
    Options options;
    row->member.set(options, setting.value);
  }
  return 0;
}
