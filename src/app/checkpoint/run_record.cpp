// SPDX-License-Identifier: Apache-2.0
#include "app/checkpoint/run_record.hpp"

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/support/collective.hpp"
#include "app/support/output_paths.hpp"
#include "app/support/version.hpp"
#include "shoal/base/error.hpp"
#include "shoal/io/text_file.hpp"

namespace shoal::app {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

/// A text; or the bytes as numbers, if they are no UTF-8, which JSON cannot hold.
Json path_json(const fs::path& path) {
  const std::string bytes = path.string();
  try {
    static_cast<void>(Json(bytes).dump());
    return bytes;
  } catch (const Json::type_error&) {
    return std::vector<unsigned char>(bytes.begin(), bytes.end());
  }
}
fs::path path_of(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  const auto bytes = json.get<std::vector<unsigned char>>();
  return std::string(bytes.begin(), bytes.end());
}

Json to_json(const RunRecord& record) {
  return {{"run", record.lineage.run},
          {"version", version()},
          {"started", record.lineage.started},
          {"ancestors", io::texts_of(record.lineage.ancestors)},
          {"checkpoint.dir", path_json(record.checkpoints)},
          {"resumed_from", path_json(record.resumed_from)}};
}

RunRecord from_json(const Json& json) {
  RunRecord record;
  record.lineage = {json.at("run").get<std::string>(), json.at("started").get<std::string>(),
                    io::ancestors_of(json.at("ancestors").get<std::map<std::string, std::string>>())};
  record.checkpoints = path_of(json.at("checkpoint.dir"));
  record.resumed_from = path_of(json.at("resumed_from"));
  return record;
}

}  // namespace

std::optional<RunRecord> read_run_record(const fs::path& output_dir) {
  const fs::path file = output_dir / run_record_name;
  if (!fs::exists(file)) return std::nullopt;
  const std::string content = io::read_text_file(file);
  try {
    return from_json(Json::parse(content));
  } catch (const std::exception&) {  // any difference from what begin_run() writes
    bad_input(file.string(),
              ": is damaged, so it is unknown which run this directory holds; allowed: checkpoint.resume = the path "
              "of a checkpoint, or --output.overwrite");
  }
}

io::Lineage begin_run(comm::World& world, const config::Options& options,
                      const std::optional<io::LoadedCheckpoint>& resumed) {
  RunRecord record;
  on_rank_0(world.all(), [&] {
    record.lineage = resumed ? io::new_run_after(resumed->state.lineage, resumed->state.step) : io::new_run();
    record.checkpoints = fs::absolute(checkpoint_directory(options));
    if (resumed) record.resumed_from = fs::absolute(resumed->file);
    io::write_text_file(fs::path(options.output.dir) / run_record_name, to_json(record).dump(1) + "\n");
  });
  return from_json(Json::parse(broadcast_text(world.all(), to_json(record).dump(), 0))).lineage;
}

}  // namespace shoal::app
