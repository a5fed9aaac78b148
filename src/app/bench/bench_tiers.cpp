// SPDX-License-Identifier: Apache-2.0
#include "app/bench/bench_tiers.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/support/collective.hpp"
#include "app/support/version.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/names.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/transfer_memory.hpp"
#include "shoal/io/nvme_tier.hpp"
#include "shoal/io/text_file.hpp"

namespace shoal::app {

namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20U;

/// A tier with one buffer, and memory for two transfers, each of as many requests as may be in flight.
class Disk {
 public:
  Disk(const io::NvmeOptions& options, std::size_t bytes, std::size_t request_bytes, std::size_t depth)
      : part_(round_up(request_bytes * depth, device::Tier::block_bytes)),
        memory_([&](Memory& memory) { take(memory, bytes); }),
        tier_(memory_, {options.dir, static_cast<double>(request_bytes) * 1e-6, depth}) {}

  const io::NvmeTier& tier() const { return tier_; }

  /// Writes or reads the whole buffer.
  void pass(bool writes) {
    std::array<device::Tier::Ticket, 2> tickets{};
    for (std::size_t first = 0, k = 0; first < there_.size(); first += part_, k = 1 - k) {
      const Span<std::byte> there = there_.subspan(first, std::min(part_, there_.size() - first));
      const Span<std::byte> here = here_.subspan(k * part_, there.size());
      tier_.wait(tickets[k]);
      tickets[k] = writes ? tier_.down(here, there) : tier_.up(there, here);
    }
    for (const device::Tier::Ticket ticket : tickets) tier_.wait(ticket);
  }

 private:
  void take(Memory& memory, std::size_t bytes) {
    there_ = memory.take<std::byte>(Kind::moments, bytes, "bytes on the disk", Use::kernels, Where::nvme);
    here_ = device::take_for_transfers(memory, Kind::staging, 2 * part_, "requests");
  }

  std::size_t part_;
  Span<std::byte> there_, here_;
  device::DeviceMemory memory_;
  io::NvmeTier tier_;
};

/// Seconds of the slowest rank.
double seconds_of(comm::World& world, const std::function<void()>& act) {
  world.all().barrier().wait();
  const std::int64_t begin = trace::now_ns();
  on_all_ranks(world.all(), act);
  double seconds = static_cast<double>(trace::now_ns() - begin) * 1e-9;
  world.all().all_reduce(Span<double>(&seconds, 1), comm::Reduce::max).wait();
  return seconds;
}

}  // namespace

TierBench bench_tiers(comm::World& world, const io::NvmeOptions& options, std::size_t bytes,
                      const std::function<void(const TierRow&)>& done) {
  const std::size_t whole = round_up(bytes, mebibyte);
  TierBench bench;
  for (const std::size_t request : {mebibyte / 4, mebibyte, 4 * mebibyte}) {
    for (const std::size_t depth : {std::size_t{1}, std::size_t{8}, std::size_t{32}}) {
      std::unique_ptr<Disk> disk;
      on_all_ranks(world.all(), [&] { disk = std::make_unique<Disk>(options, whole, request, depth); });
      bench.access = disk->tier().access();
      bench.direct = disk->tier().direct();
      bench.warnings = disk->tier().warnings();
      TierRow row{request, depth, 0, 0};
      disk->pass(true);  // what is written first may be slower
      row.write_rate = static_cast<double>(whole) / seconds_of(world, [&] { disk->pass(true); });
      row.read_rate = static_cast<double>(whole) / seconds_of(world, [&] { disk->pass(false); });
      bench.rows.push_back(row);
      done(row);
    }
  }
  return bench;
}

void write_tiers_file(const std::filesystem::path& file, comm::World& world, const std::string& directory,
                      const TierBench& measured) {
  nlohmann::ordered_json json = {{"program", "shoal"},
                                 {"version", version()},
                                 {"format", "shoal-bench-tiers"},
                                 {"format_version", 1},
                                 {"ranks", world.size()},
                                 {"nodes", world.nodes()},
                                 {"directory", directory},
                                 {"access", name_of(measured.access)},
                                 {"direct", measured.direct}};
  json["rows"] = nlohmann::ordered_json::array();
  for (const TierRow& row : measured.rows) {
    json["rows"].push_back({{"request_bytes", row.request_bytes},
                            {"depth", row.depth},
                            {"write_bytes_per_s", row.write_rate},
                            {"read_bytes_per_s", row.read_rate}});
  }
  // JSON must be UTF-8, but a path may contain any bytes.
  io::write_text_file(file, json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace shoal::app
