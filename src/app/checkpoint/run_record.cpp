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
#include "shoal/config/options.hpp"
#include "shoal/io/text_file.hpp"
#include "shoal/kernels/runtime.hpp"
#include "shoal/model/model.hpp"

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

/// What the run computes and on what, for readers; resuming does not need it. Paths among it may be no UTF-8.
Json description(comm::World& world, const ResolvedRun& resolved) {
  Json options = Json::object(), changed = Json::array();
  for (const auto& [name, value] : config::list(resolved.options)) options[name] = value;
  for (const auto& [name, value] : config::changed(resolved.options)) changed.push_back(name);
  return {{"world_size", world.size()},
          {"nodes", world.nodes()},
          {"device", kernels::device_name()},
          {"threads", resolved.threads},
          {"parameters", model::parameter_count(resolved.options.model)},
          {"data", resolved.dataset.description},
          {"options", options},
          {"changed", changed}};
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

io::Lineage begin_run(comm::World& world, const ResolvedRun& resolved, const std::optional<io::LoadedCheckpoint>& before) {
  const config::Options& options = resolved.options;
  RunRecord record;
  on_rank_0(world.all(), [&] {
    record.lineage = before ? io::new_run_after(before->state.lineage, before->state.step) : io::new_run();
    record.checkpoints = fs::absolute(checkpoint_directory(options));
    if (before) record.resumed_from = fs::absolute(before->file);
    Json written = to_json(record);
    written.update(description(world, resolved));
    io::write_text_file(fs::path(options.output.dir) / run_record_name,
                        written.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  });
  return from_json(Json::parse(broadcast_text(world.all(), to_json(record).dump(), 0))).lineage;
}

}  // namespace shoal::app
