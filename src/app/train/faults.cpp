// SPDX-License-Identifier: Apache-2.0
#include "app/train/faults.hpp"

#include <chrono>
#include <csignal>
#include <thread>

#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/output.hpp"
#include "shoal/base/pump.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/io/injected.hpp"

namespace shoal::app {

namespace {

using config::Fault;
using config::FaultKind;

constexpr double slow_timeouts = 3;  // a slow step lasts this many times comm.timeout
/// Time for the launcher to read the line before the process ends.
constexpr std::chrono::milliseconds launcher_reads(200);

void announce(const Fault& fault, const std::string& what) {
  output::print(text("# fault: rank ", fault.rank, " ", what, " (fault.kind = ", name_of(fault.kind), ")\n"));
}

[[noreturn]] void hang() {
  while (true) std::this_thread::sleep_for(std::chrono::hours(1));
}

/// Makes no progress, but lives: as a step of many kernels.
void be_slow(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    pump();
  }
}

void cause(const Fault& fault, double timeout_s) {
  switch (fault.kind) {
    case FaultKind::kill:
      announce(fault, text("kills itself in step ", fault.step));
      std::this_thread::sleep_for(launcher_reads);
      raise(SIGKILL);
      break;
    case FaultKind::hang: announce(fault, text("hangs in step ", fault.step)); hang();
    case FaultKind::slow:
      announce(fault, text("takes ", slow_timeouts * timeout_s, " s longer for step ", fault.step));
      be_slow(slow_timeouts * timeout_s);
      break;
    case FaultKind::io_error:
      announce(fault, text("will fail in its next write, from step ", fault.step, " on"));
      io::fail_next_write();
      break;
    case FaultKind::tier_flip:
      announce(fault, text("changes a byte of its states on the disk, from step ", fault.step, " on"));
      io::flip_next_block();
      break;
    case FaultKind::tier_error:
      announce(fault, text("will fail to read or write its states on the disk, from step ", fault.step, " on"));
      io::fail_next_transfer();
      break;
    case FaultKind::corrupt: break;  // wrote() does it
  }
}

}  // namespace

std::string describe_faults(const config::FaultOptions& options) {
  const std::vector<Fault> faults = config::faults(options).value();
  std::string words;
  for (const Fault& fault : faults) words += (words.empty() ? "" : "; ") + config::describe(fault);
  return words.empty() ? words : words + ": caused on purpose (fault.kind), unless the run resumes from a checkpoint";
}

Faults::Faults(const config::Options& options, int rank, bool resumed) : timeout_s_(options.comm.timeout) {
  if (resumed) return;
  const std::vector<Fault> faults = config::faults(options.fault).value();
  for (const Fault& fault : faults) {
    if (fault.rank == static_cast<std::size_t>(rank))
      (fault.kind == FaultKind::corrupt ? corrupts_ : left_).push_back(fault);
  }
}

void Faults::begin_step(std::size_t step) {
  for (const Fault& fault : left_) {
    if (fault.step != step) continue;
    heartbeat::phase("step");
    trace::set_step(static_cast<std::int32_t>(step));
    cause(fault, timeout_s_);
  }
}

void Faults::wrote(const std::filesystem::path& file, std::size_t step) {
  const auto due = [&](const Fault& fault) { return fault.step <= step; };
  for (const Fault& fault : corrupts_) {
    if (!due(fault)) continue;
    io::flip_byte(file);
    announce(fault, text("has changed a byte of ", file.string()));
  }
  std::erase_if(corrupts_, due);
}

}  // namespace shoal::app
