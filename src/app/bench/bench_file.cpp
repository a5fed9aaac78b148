// SPDX-License-Identifier: Apache-2.0
#include "app/bench/bench_file.hpp"

#include <cmath>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/support/version.hpp"
#include "shoal/base/error.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/io/text_file.hpp"

namespace shoal::app {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* format = "shoal-bench-comm";
constexpr int format_version = 2;

Json json_of(const CommRow& row) {
  return {{"collective", row.collective},
          {"how", row.how},
          {"group", row.group},
          {"ranks", row.ranks},
          {"bytes", row.bytes},
          {"repetitions", row.repetitions},
          {"operations_each", row.operations_each},
          {"operations", row.operations},
          {"min_s", row.min_s},
          {"median_s", row.median_s},
          {"max_s", row.max_s},
          {"algorithm_bandwidth", row.algorithm_bandwidth},
          {"bus_bandwidth", row.bus_bandwidth},
          {"wrong", row.wrong},
          {"sent", {{"intra", row.sent.intra}, {"inter", row.sent.inter}}}};
}

Json json_of(const std::optional<plan::Link>& link, double deviation) {
  if (!link) return nullptr;
  return {{"latency_s", link->latency_s},
          {"s_per_byte", link->s_per_byte},
          {"credit_bytes", link->credit_bytes},
          {"worst_deviation", deviation}};
}

Json json_of(const comm::Topology& topology) {
  const int each = topology.ranks_per_node();
  return {{"ranks", topology.ranks()},
          {"nodes", topology.nodes()},
          {"ranks_per_node", each > 0 ? Json(each) : Json(nullptr)},
          {"hosts", topology.hosts},
          {"node_of", topology.node_of}};
}

Json json_of(const plan::Codec& codec) { return {{"quantize_s", codec.quantize_s}, {"dequantize_s", codec.dequantize_s}}; }

Json json_of(const plan::TrainingRates& rates) {
  Json gflops = Json::array();
  for (const auto& [width, rate] : rates.gflops) gflops.push_back({{"n_embd", width}, {"gflops", rate}});
  return {{"by_width", gflops},
          {"update_s", rates.update_s},
          {"speedup", {{"node_alone", rates.speedup.node_alone}, {"rank_alone", rates.speedup.rank_alone}}}};
}

Json json_of(const std::map<std::string, plan::TrainingRates>& training) {
  Json json = Json::object();
  for (const auto& [dtype, rates] : training) json[dtype] = json_of(rates);
  return json;
}

Json json_of(const MachineModel& model) {
  return {{"ranks_per_node", model.network.ranks_per_node},
          {"node", json_of(model.network.node, model.node_deviation)},
          {"across", json_of(model.network.across, model.across_deviation)},
          {"sum_s_per_byte", model.network.sum_s_per_byte},
          {"quantization", {{"int8", json_of(model.network.int8)}, {"int4", json_of(model.network.int4)}}},
          {"gflops", model.gflops},
          {"training", json_of(model.training)}};
}

double not_negative(const Json& json, const char* name) {
  const double value = json.at(name).get<double>();
  require_input(std::isfinite(value) && value >= 0, name, " = ", value, ": allowed: numbers from 0");
  return value;
}

std::optional<plan::Link> link_of(const Json& json) {
  if (json.is_null()) return std::nullopt;
  // Older files have no credit.
  return plan::Link{not_negative(json, "latency_s"), not_negative(json, "s_per_byte"),
                    json.contains("credit_bytes") ? not_negative(json, "credit_bytes") : 0};
}

plan::Codec codec_of(const Json& json) { return {not_negative(json, "quantize_s"), not_negative(json, "dequantize_s")}; }

plan::TrainingRates rates_of(const Json& json) {
  plan::TrainingRates rates;
  for (const Json& row : json.at("by_width")) {
    const auto width = row.at("n_embd").get<std::int64_t>();
    const double gflops = not_negative(row, "gflops");
    require_input(width >= 1, "n_embd = ", width, ": allowed: whole numbers of at least 1");
    require_input(gflops > 0, "gflops = 0 at n_embd = ", width, ": allowed: numbers above 0");
    rates.gflops[static_cast<std::size_t>(width)] = gflops;
  }
  require_input(!rates.gflops.empty(), "by_width is empty");
  rates.update_s = not_negative(json, "update_s");
  if (json.contains("speedup")) {  // older files have none
    rates.speedup = {not_negative(json.at("speedup"), "node_alone"), not_negative(json.at("speedup"), "rank_alone")};
  }
  return rates;
}

}  // namespace

void write_bench_file(const std::filesystem::path& file, const comm::Topology& topology,
                      const std::map<std::string, std::string>& machine, const std::vector<CommRow>& rows,
                      const std::optional<MachineModel>& model) {
  Json json = {{"program", "shoal"}, {"version", version()},         {"format", format}, {"format_version", format_version},
               {"machine", machine}, {"topology", json_of(topology)}};
  json["rows"] = Json::array();
  for (const CommRow& row : rows) json["rows"].push_back(json_of(row));
  json["model"] = model ? json_of(*model) : Json();
  io::write_text_file(file, json.dump(1) + "\n");
}

MachineModel read_bench_file(const std::filesystem::path& file, const std::string& option) {
  std::error_code unknown;
  const bool other = std::filesystem::exists(file, unknown) && !std::filesystem::is_regular_file(file, unknown);
  require_input(!other, option, " ", file.string(), ": not a regular file; `shoal bench comm --output FILE` makes one");
  std::ifstream in(file);
  require_input(in.good(), option, " ", file.string(), ": cannot be read; `shoal bench comm --output FILE` makes one");
  try {
    const Json json = Json::parse(in);
    require_input(json.value("format", "") == format, "not a result of `shoal bench comm`");
    require_input(json.at("format_version") == format_version, "format_version ", json.at("format_version").dump(),
                  "; this program reads ", format_version);
    const Json& model = json.at("model");
    require_input(!model.is_null(), "has no model: it needs all_gather:tree measured in at least two sizes");
    MachineModel result;
    result.network.queued = json.at("machine").value("backend", "mpi") == "nccl";  // older files name none: MPI
    result.on_gpus = json.at("machine").value("kind", "") == name_of(device::DeviceKind::cuda);
    result.network.ranks_per_node = model.at("ranks_per_node").get<int>();
    require_input(result.network.ranks_per_node >= 1, "ranks_per_node = ", result.network.ranks_per_node,
                  ": allowed: whole numbers of at least 1");
    result.network.node = link_of(model.at("node"));
    result.network.across = link_of(model.at("across"));
    result.network.sum_s_per_byte = not_negative(model, "sum_s_per_byte");
    result.network.int8 = codec_of(model.at("quantization").at("int8"));
    result.network.int4 = codec_of(model.at("quantization").at("int4"));
    for (const auto& [dtype, rates] : model.at("training").items()) result.training[dtype] = rates_of(rates);
    result.gflops = model.at("gflops").get<std::map<std::string, double>>();
    return result;
  } catch (const nlohmann::json::exception& error) {
    bad_input(option, " ", file.string(), ": ", error.what());
  } catch (const Error& error) {
    bad_input(option, " ", file.string(), ": ", error.what());
  }
}

}  // namespace shoal::app
