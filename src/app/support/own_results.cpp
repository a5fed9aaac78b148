// SPDX-License-Identifier: Apache-2.0
#include "app/support/own_results.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/io/text_file.hpp"

namespace shoal::app {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

Json json_of(const fs::path& file) {
  std::ifstream in(file);
  return Json::parse(in, nullptr, false);
}

bool has_all(const Json& json, const std::vector<std::string>& keys) {
  return json.is_object() && std::all_of(keys.begin(), keys.end(), [&](const auto& key) { return json.contains(key); });
}

io::OwnKind with_keys(std::string name, std::vector<std::string> keys) {
  return {std::move(name), [keys = std::move(keys)](const fs::path& file) { return has_all(json_of(file), keys); }};
}

io::OwnKind of_format(std::string name, std::string format) {
  return {std::move(name),
          [format = std::move(format)](const fs::path& file) { return json_of(file).at("format") == format; }};
}

}  // namespace

io::OwnKind own_summary() { return with_keys("summary of a run", {"losses", "options"}); }
io::OwnKind own_run_record() { return with_keys("identity of a run", {"run", "ancestors"}); }
io::OwnKind own_plan() { return with_keys("result of `shoal plan`", {"runs", "deepspeed"}); }
io::OwnKind own_bench() { return of_format("result of `shoal bench comm`", "shoal-bench-comm"); }
io::OwnKind own_tiers() { return of_format("result of `shoal bench tiers`", "shoal-bench-tiers"); }
io::OwnKind own_doctor() { return of_format("result of `shoal doctor`", "shoal-doctor"); }
io::OwnKind own_simulation() { return of_format("result of `shoal study --simulate`", "shoal-simulation"); }
io::OwnKind own_replay() { return of_format("trace for SimGrid", "shoal-replay"); }

io::OwnKind own_log() {
  return {"log of a run", [](const fs::path& file) {
            std::ifstream in(file);
            std::string line;
            return std::getline(in, line) && line.starts_with(log_mark);
          }};
}

io::OwnKind own_metrics() {
  return {"metrics file of a run", [](const fs::path& file) {
            std::ifstream in(file);
            std::string line;
            std::getline(in, line);
            // A killed run may have left an incomplete first line.
            return (in.eof() && line.starts_with('{')) || has_all(Json::parse(line, nullptr, false), {"step", "loss"});
          }};
}

void require_result(const std::string& option, const fs::path& file, const io::OwnKind& kind, bool overwrite) {
  if (file.empty() || io::is_stream(file)) return;
  io::require_target(option, file, kind, overwrite);
  const fs::path directory = file.has_parent_path() ? file.parent_path() : ".";
  const std::string problem = fs::is_directory(directory) ? io::why_not_writable(directory) : "no such directory";
  require_input(problem.empty(), option, file.string(), ": cannot be written: ", problem);
}

}  // namespace shoal::app
