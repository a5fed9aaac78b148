// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/replay_trace.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

namespace shoal::plan {

namespace {

using Action = RecordedAction;

constexpr std::size_t tags = 30'000;  // then they repeat

/// Lines are collected before they go to the stream.
class Lines {
 public:
  explicit Lines(std::ostream& out) : out_(&out) {}
  template <class... Numbers>
  void add(int process, std::string_view what, Numbers... numbers) {
    number(process);
    text_ += ' ';
    text_ += what;
    ((text_ += ' ', number(numbers)), ...);
    text_ += '\n';
    if (text_.size() >= enough) flush();
  }
  std::uint64_t flush() {
    out_->write(text_.data(), static_cast<std::streamsize>(text_.size()));
    written_ += text_.size();
    text_.clear();
    return written_;
  }

 private:
  static constexpr std::size_t enough = std::size_t{1} << 20U;
  template <class Number>
  void number(Number value) {
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    text_.append(digits.data(), end);
  }

  std::ostream* out_;
  std::string text_;
  std::uint64_t written_ = 0;
};

class Writer {
 public:
  Writer(const Recording& recording, int ranks, std::ostream& out) : recording_(&recording), ranks_(ranks), lines_(out) {}

  std::uint64_t write() {
    for_each_process([&](int process) { lines_.add(process, "init"); });
    for (const Action& action : recording_->actions) {
      for (int rank = 0; rank < ranks_; ++rank) write(action, rank);
    }
    for_each_process([&](int process) { lines_.add(process, "finalize"); });
    return lines_.flush();
  }

 private:
  template <class Act>
  void for_each_process(const Act& act) {
    for (int rank = 0; rank < ranks_; ++rank) {
      for (int lane = 0; lane <= recording_->lanes; ++lane) act(process(rank, lane));
    }
  }
  int process(int rank, int lane) const { return rank * (1 + recording_->lanes) + lane; }

  void write(const Action& action, int rank) {
    if (action.kind == Action::Kind::compute) return compute(process(rank, 0), action.seconds);
    const RecordedOperation& operation = recording_->operations[action.operation];
    const int own = process(rank, 0), lane = process(rank, operation.lane);
    if (action.kind == Action::Kind::wait) return lines_.add(own, "recv", lane, lane_tag, 0);
    if (lane == own) return exchange(operation, action.operation, rank);
    lines_.add(own, "send", lane, lane_tag, 0);
    lines_.add(lane, "recv", own, lane_tag, 0);
    exchange(operation, action.operation, rank);
    lines_.add(lane, "send", own, lane_tag, 0);
  }

  void compute(int process, double seconds) {
    const auto flops = std::llround(seconds * flops_per_second);
    if (flops > 0) lines_.add(process, "compute", flops);
  }

  void exchange(const RecordedOperation& operation, std::size_t number, int rank) {
    const int own = process(rank, operation.lane);
    const int tag = operation.control ? control_tag : first_tag + static_cast<int>(number % tags);
    bool sends = false;
    for (const OperationStep& step : operation.steps_of(rank)) {
      compute(own, step.before_s);
      const bool one_partner = step.exchange.size() == 1;
      for (const comm::PartnerBytes& with : step.exchange) {
        const int partner = process(with.partner, operation.lane);
        if (with.sent > 0) lines_.add(own, "isend", partner, tag, with.sent);
        if (with.received > 0) lines_.add(own, one_partner ? "recv" : "irecv", partner, tag, with.received);
        sends |= with.sent > 0;
      }
      if (!one_partner && !step.exchange.empty()) {
        lines_.add(own, "waitall");
        sends = false;
      }
      compute(own, step.after_s);
    }
    if (sends) lines_.add(own, "waitall");
  }

  const Recording* recording_;
  int ranks_;
  Lines lines_;
};

}  // namespace

double replay_lines(const Recording& recording, int ranks) {
  double lines = 2 * (1 + recording.lanes) + static_cast<double>(recording.actions.size());
  for (const RecordedOperation& operation : recording.operations) {
    lines += operation.lane == 0 ? 1 : 4;
    for (const OperationStep& step : operation.steps_of(0)) {
      lines += 2;
      for (const comm::PartnerBytes& with : step.exchange) lines += (with.sent > 0 ? 1 : 0) + (with.received > 0 ? 1 : 0);
    }
  }
  return lines * ranks;
}

std::uint64_t write_replay_trace(const Recording& recording, int ranks, std::ostream& out) {
  return Writer(recording, ranks, out).write();
}

}  // namespace shoal::plan
