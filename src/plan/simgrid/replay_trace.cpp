// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/replay_trace.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::plan {

namespace {

constexpr std::size_t tags = first_message_tag - first_tag;  // of collectives; then they repeat

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

std::size_t bytes_of(const RecordedMessage& message, std::size_t data_rank) {
  return message.bytes[message.bytes.size() == 1 ? 0 : data_rank];
}

class Writer {
 public:
  Writer(const Recording& recording, int ranks, std::ostream& out)
      : recording_(&recording), ranks_(ranks), of_stage_(ranks / static_cast<int>(recording.actions.size())), lines_(out) {}

  /// The lists of stages have about the same lengths, so actions at the same position are near each other in time.
  std::uint64_t write() {
    for_each_process([&](int process) { lines_.add(process, "init"); });
    std::size_t longest = 0;
    for (const auto& actions : recording_->actions) longest = std::max(longest, actions.size());
    for (std::size_t i = 0; i < longest; ++i) {
      for (int rank = 0; rank < ranks_; ++rank) {
        const std::vector<RecordedAction>& actions = recording_->actions[static_cast<std::size_t>(rank / of_stage_)];
        if (i < actions.size()) write(actions[i], rank);
      }
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

  void write(const RecordedAction& action, int rank) {
    if (action.kind == RecordedAction::Kind::compute) return compute(process(rank, 0), action.seconds);
    const bool starts_message = action.kind == RecordedAction::Kind::start_message;
    if (starts_message || action.kind == RecordedAction::Kind::wait_for_message) {
      return add_message(recording_->messages[action.number], starts_message, rank);
    }
    const RecordedOperation& operation = recording_->operations[action.number];
    const int own = process(rank, 0), lane = process(rank, operation.lane);
    if (action.kind == RecordedAction::Kind::wait) return lines_.add(own, "recv", lane, lane_tag, signal_bytes);
    if (lane == own) return exchange(operation, action.number, rank);
    tell(own, lane);
    exchange(operation, action.number, rank);
    lines_.add(lane, "send", own, lane_tag, signal_bytes);
  }

  void compute(int process, double seconds) {
    const auto flops = std::llround(seconds * flops_per_second);
    if (flops > 0) lines_.add(process, "compute", flops);
  }

  void tell(int own, int lane) {
    lines_.add(own, "send", lane, lane_tag, signal_bytes);
    lines_.add(lane, "recv", own, lane_tag, signal_bytes);
  }

  void add_message(const RecordedMessage& message, bool starts, int rank) {
    const int number = rank % of_stage_;
    const std::size_t bytes = bytes_of(message, static_cast<std::size_t>(number));
    if (bytes == 0) return;
    const int own = process(rank, 0), lane = process(rank, message.lane);
    if (!starts && lane != own) return lines_.add(own, "recv", lane, lane_tag, signal_bytes);
    if (!starts) return message.sends ? lines_.add(own, "waitall") : void();
    const int partner = process(message.other * of_stage_ + number, message.other_lane);
    if (lane != own) tell(own, lane);
    lines_.add(lane, message.sends ? "isend" : "recv", partner, first_message_tag + message.tag, bytes);
    if (lane == own) return;
    if (message.sends) lines_.add(lane, "waitall");
    lines_.add(lane, "send", own, lane_tag, signal_bytes);
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
  int ranks_, of_stage_;
  Lines lines_;
};

}  // namespace

double replay_lines(const Recording& recording, int ranks) {
  const int of_stage = ranks / static_cast<int>(recording.actions.size());
  double lines = 0;  // of the first rank of each stage
  for (std::size_t stage = 0; stage < recording.actions.size(); ++stage) {
    lines += 2 * (1 + recording.lanes) + static_cast<double>(recording.actions[stage].size());
    for (const RecordedAction& action : recording.actions[stage]) {
      if (action.kind == RecordedAction::Kind::start_message) lines += 4;
      if (action.kind != RecordedAction::Kind::start) continue;
      const RecordedOperation& operation = recording.operations[action.number];
      lines += operation.lane == 0 ? 1 : 4;
      for (const OperationStep& step : operation.steps_of(static_cast<int>(stage) * of_stage)) {
        lines += 2;
        for (const comm::PartnerBytes& with : step.exchange) lines += (with.sent > 0 ? 1 : 0) + (with.received > 0 ? 1 : 0);
      }
    }
  }
  return lines * of_stage;
}

std::uint64_t write_replay_trace(const Recording& recording, int ranks, std::ostream& out) {
  return Writer(recording, ranks, out).write();
}

}  // namespace shoal::plan
