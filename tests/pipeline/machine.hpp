// SPDX-License-Identifier: Apache-2.0
// Executes the programs of all stages, message by message, with buffers that remember what they hold. Time plays no part:
// what may happen happens in an order that is drawn from a seed.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/pipeline/program.hpp"

namespace shoal::pipeline::test {

/// When a message is complete.
enum class Messages {
  eager,       ///< for its sender at once; for its receiver when both have started it
  rendezvous,  ///< when both have started it
  one_by_one,  ///< when both have started it, and all that they have started before is complete
  blocking     ///< as one_by_one, and a stage does nothing else before its message is complete
};

class Machine {
 public:
  Machine(std::vector<Program> programs, Messages how)
      : programs_(std::move(programs)), how_(how), stages_(programs_.size()) {}

  /// Returns what went wrong; empty if all programs came to their ends.
  std::string run(unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::size_t> order(stages_.size());
    for (std::size_t s = 0; s < order.size(); ++s) order[s] = s;
    for (bool moved = true; moved && problem_.empty();) {
      moved = false;
      std::shuffle(order.begin(), order.end(), random);
      for (const std::size_t s : order) {
        // Sometimes a stage goes as far as it can, sometimes a single step.
        for (std::size_t most = random() % 2 == 0 ? 1 : ~std::size_t{0}; most > 0 && problem_.empty() && advances(s);
             --most) {
          moved = true;
        }
      }
    }
    for (std::size_t s = 0; s < stages_.size() && problem_.empty(); ++s) {
      if (stages_[s].at < programs_[s].steps.size()) {
        problem_ = text("stage ", s, " waits for ever before action ", stages_[s].at);
      } else if (!stages_[s].open.empty()) {
        problem_ = text("stage ", s, " has a message that is never complete");
      }
    }
    return problem_;
  }

 private:
  using Buffer = std::tuple<bool, Action::Kind, std::size_t, std::size_t, bool>;
  struct Held {
    std::optional<Border> border;
    bool complete = false;  // received; or sent
    bool posted = false;    // a receive that is not complete
  };
  struct Started {
    Call call;
    bool complete = false;
  };
  struct Stage {
    std::size_t at = 0, calls = 0;  // the next action, and how many of the calls before it were started
    std::map<Buffer, Held> buffers;
    std::deque<Started> open;  // messages that are not complete, in the order in which they were started
    std::map<std::pair<int, int>, std::deque<Border>> eager;  // sent to this stage, by sender and tag
  };

  /// What an action reads or makes, and where.
  struct Port {
    std::optional<Border> border;
    std::optional<Place> place;
  };

  static Buffer buffer_of(const Place& place) { return {place.sent, place.kind, place.part, place.buffer, place.skip}; }
  Held& held(std::size_t stage, const Place& place) { return stages_[stage].buffers[buffer_of(place)]; }
  void wrong(const std::string& what) {
    if (problem_.empty()) problem_ = what;
  }

  /// One call or one action.
  bool advances(std::size_t s) {
    Stage& stage = stages_[s];
    const Program& program = programs_[s];
    const bool at_end = stage.at == program.steps.size();
    const std::vector<Call>& calls = at_end ? program.after : program.steps[stage.at].before;
    if (how_ == Messages::blocking && !stage.open.empty()) return false;
    if (stage.calls < calls.size()) {
      start(s, calls[stage.calls++]);
      return true;
    }
    return !at_end && computes(s, program.steps[stage.at]);
  }

  void start(std::size_t s, const Call& call) {
    Held& buffer = held(s, call.place);
    if (call.sends) {
      if (buffer.border != call.border) wrong(text("stage ", s, " sends another border than ", words_of(call.border)));
    } else {
      if (buffer.border || buffer.posted) {
        wrong(text("stage ", s, ": ", words_of(call.border), " would overwrite ",
                   buffer.border ? words_of(*buffer.border) : "what is being received"));
      }
      buffer.posted = true;
    }
    stages_[s].open.push_back({call});
    if (how_ == Messages::eager && call.sends) {
      const auto to = static_cast<std::size_t>(call.other);
      stages_[to].eager[{static_cast<int>(s), tag(call)}].push_back(call.border);
      buffer.border.reset();
      stages_[s].open.pop_back();
      deliver_eager(to);
    } else if (how_ == Messages::eager) {
      deliver_eager(s);
    } else {
      match(s);
    }
  }

  int tag(const Call& call) const { return tag_of(call.border, parts_of_model(programs_.front().shape)); }

  void arrives(std::size_t s, const Call& call, const Border& border) {
    if (border != call.border) wrong(text("stage ", s, " gets ", words_of(border), " in place of ", words_of(call.border)));
    held(s, call.place) = {border, true, false};
  }

  void deliver_eager(std::size_t s) {
    Stage& stage = stages_[s];
    for (Started& receive : stage.open) {
      auto& sent = stage.eager[{receive.call.other, tag(receive.call)}];
      if (sent.empty()) continue;
      arrives(s, receive.call, sent.front());
      sent.pop_front();
      receive.complete = true;
    }
    std::erase_if(stage.open, [](const Started& each) { return each.complete; });
  }

  /// Completes the messages of this stage for which that is possible, and what becomes possible by it.
  void match(std::size_t s) {
    std::deque<std::size_t> work = {s};
    while (!work.empty()) {
      const std::size_t own = work.front();
      work.pop_front();
      const bool in_order = how_ != Messages::rendezvous;
      bool found = false;
      for (std::size_t i = 0; i < stages_[own].open.size() && !found && !(in_order && i > 0); ++i) {
        const Call mine = stages_[own].open[i].call;
        const auto other = static_cast<std::size_t>(mine.other);
        auto& theirs = stages_[other].open;
        for (std::size_t j = 0; j < theirs.size() && !found && !(in_order && j > 0); ++j) {
          const Call call = theirs[j].call;
          if (call.other != static_cast<int>(own) || call.sends == mine.sends || tag(call) != tag(mine)) continue;
          found = true;
          theirs.erase(theirs.begin() + static_cast<std::ptrdiff_t>(j));
          stages_[own].open.erase(stages_[own].open.begin() + static_cast<std::ptrdiff_t>(i));
          const auto& [send, receive] = mine.sends ? std::pair(mine, call) : std::pair(call, mine);
          arrives(mine.sends ? other : own, receive, send.border);
          held(mine.sends ? own : other, send.place).border.reset();
        }
        if (found) work.insert(work.end(), {own, other});
      }
    }
  }

  bool computes(std::size_t s, const Step& step) {
    Stage& stage = stages_[s];
    const ScheduleShape& shape = programs_[s].shape;
    const Action& action = step.action;
    const std::array reads = {Port{border_read(shape, action), step.in}, Port{skip_read(shape, action), step.skip_in}};
    const std::array makes = {Port{border_made(shape, action), step.out},
                              Port{skip_made(shape, action, trains(s)), step.skip_out}};
    for (const auto& ports : {reads, makes}) {
      for (const Port& port : ports) {
        if (port.border.has_value() != port.place.has_value()) wrong("a place is missing");
      }
    }
    for (const auto& [border, place] : reads) {
      if (!place) continue;
      const Held& in = held(s, *place);
      if (!in.complete) return false;
      if (in.border != border) wrong(text("stage ", s, " has no longer ", words_of(*border)));
    }
    for (const auto& [border, place] : makes) {
      if (!place) continue;
      const Held& out = held(s, *place);
      if (out.border && place->sent) return false;
      if (out.border) wrong(text("stage ", s, ": ", words_of(*border), " would overwrite ", words_of(*out.border)));
    }
    for (const auto& [border, place] : makes) {
      if (place) held(s, *place) = {border, !place->sent, false};
    }
    if (action.kind == Action::Kind::forward) {
      if (step.in) kept_[{s, action.part, action.turn}] = *step.in;
    } else {
      if (const auto kept = kept_.find({s, action.part, action.turn}); kept != kept_.end()) {
        const Border input{Action::Kind::forward, part_of_model(shape, action.part), action.turn};
        if (held(s, kept->second).border != input) wrong(text("stage ", s, " has lost ", words_of(input)));
        held(s, kept->second) = {};
      }
      if (step.in) held(s, *step.in) = {};
    }
    if (!trains(s) && step.in) held(s, *step.in) = {};
    if (step.skip_in) held(s, *step.skip_in) = {};
    ++stage.at;
    stage.calls = 0;
    return true;
  }

  bool trains(std::size_t s) const {
    return std::any_of(programs_[s].steps.begin(), programs_[s].steps.end(),
                       [](const Step& step) { return step.action.kind == Action::Kind::backward; });
  }

  std::vector<Program> programs_;
  Messages how_;
  std::vector<Stage> stages_;
  std::map<std::tuple<std::size_t, int, std::uint32_t>, Place> kept_;
  std::string problem_;
};

/// The programs of all stages.
inline std::vector<Program> programs_of(const Lists& lists, ScheduleShape shape, const std::vector<Buffers>& buffers,
                                        Messages how) {
  const bool early = how == Messages::eager || how == Messages::rendezvous;
  std::vector<Program> programs;
  for (shape.stage = 0; shape.stage < shape.stages; ++shape.stage) {
    programs.push_back(program_of(lists, shape, buffers, early ? Order::early : Order::one_by_one));
  }
  return programs;
}

}  // namespace shoal::pipeline::test
