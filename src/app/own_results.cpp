// SPDX-License-Identifier: Apache-2.0
#include "own_results.hpp"

#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>

#include "shoal/base/error.hpp"
#include "shoal/io/text_file.hpp"

namespace shoal::app {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

bool has_all(const Json& json, std::initializer_list<const char*> keys) {
  if (!json.is_object()) return false;
  for (const char* const key : keys) {
    if (!json.contains(key)) return false;
  }
  return true;
}

Json json_of(const fs::path& file) {
  std::ifstream in(file);
  return Json::parse(in, nullptr, false);
}

}  // namespace

io::OwnKind own_summary() {
  return {"summary of a run", [](const fs::path& file) { return has_all(json_of(file), {"losses", "options"}); }};
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

io::OwnKind own_run_record() {
  return {"identity of a run", [](const fs::path& file) { return has_all(json_of(file), {"run", "ancestors"}); }};
}

io::OwnKind own_plan() {
  return {"result of `shoal plan`", [](const fs::path& file) { return has_all(json_of(file), {"runs", "deepspeed"}); }};
}

io::OwnKind own_bench() {
  return {"result of `shoal bench comm`",
          [](const fs::path& file) { return json_of(file).at("format") == "shoal-bench-comm"; }};
}

io::OwnKind own_study() {
  return {"results of `shoal study`", [](const fs::path& file) { return json_of(file).at("format") == "shoal-study"; }};
}

io::OwnKind own_doctor() {
  return {"result of `shoal doctor`", [](const fs::path& file) { return json_of(file).at("format") == "shoal-doctor"; }};
}

io::OwnKind own_simulation() {
  return {"result of `shoal study --simulate`",
          [](const fs::path& file) { return json_of(file).at("format") == "shoal-simulation"; }};
}

io::OwnKind own_replay() {
  return {"trace for SimGrid", [](const fs::path& file) { return json_of(file).at("format") == "shoal-replay"; }};
}

void require_result(const std::string& option, const fs::path& file, const io::OwnKind& kind, bool overwrite) {
  if (file.empty() || io::is_stream(file)) return;
  io::require_target(option, file, kind, overwrite);
  const fs::path directory = file.has_parent_path() ? file.parent_path() : ".";
  const std::string problem = fs::is_directory(directory) ? io::why_not_writable(directory) : "no such directory";
  require_input(problem.empty(), option, file.string(), ": cannot be written: ", problem);
}

}  // namespace shoal::app
