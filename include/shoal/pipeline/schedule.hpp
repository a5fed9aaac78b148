// SPDX-License-Identifier: Apache-2.0
// The order in which one rank computes a step. The model is cut into parts, each a range of units. A turn is the index of a
// micro-batch among those that a pipeline computes in a step. A step is a list of actions: forward or backward of one part
// for one turn. The lists are pure functions; messages, activation memory and the simulated times of `shoal plan` follow
// from them.
//
// With P stages (ranks) and v parts per stage, part k of stage s is part k P + s of the model: so a micro-batch visits all
// stages v times. Example: 1f1b on two stages, four turns. F0 is the forward pass of turn 0, B0 its backward pass.
//
//   stage 0   F0 F1       B0 F2    B1 F3    B2       B3
//   stage 1      F0 B0 F1    B1 F2    B2 F3    B3
//
// In all lists each part meets its turns in ascending order, both forward and backward: the sums of gradients over turns are
// then the same sums, bit for bit, whatever the schedule.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "shoal/base/names.hpp"

namespace shoal::pipeline {

struct Action {
  enum class Kind : std::uint8_t { forward, backward };
  Kind kind = Kind::forward;
  std::uint16_t part = 0;  ///< index among the parts of this stage
  std::uint32_t turn = 0;
  bool operator==(const Action&) const = default;
};

/// What a list of actions is made for. 0 <= stage < stages; parts is the number per stage.
struct ScheduleShape {
  int stages = 1, stage = 0, parts = 1;
  std::size_t turns = 1;
  bool skip = false;  ///< the model has a skip connection from its first part to its last one (border.hpp)
};

/// Index in the model of a part of this stage.
inline int part_of_model(const ScheduleShape& shape, int part) { return part * shape.stages + shape.stage; }

/// Each turn goes forward through all parts and back before the next one starts. One stage only.
std::vector<Action> depth_first(const ScheduleShape& shape);

/// All turns forward, part by part, then all turns backward (Huang et al. 2019, "GPipe"). GPipe itself goes backward through
/// the turns in descending order. With several parts: breadth-first (Lamy-Poirier 2023).
std::vector<Action> gpipe(const ScheduleShape& shape);

/// Stage s computes up to stages - s turns forward, then one backward and one forward in alternation (Narayanan et al. 2019,
/// "PipeDream"; 2021, 1F1B-flush). One part per stage.
std::vector<Action> one_f_one_b(const ScheduleShape& shape);

/// One forward, one backward in alternation over several parts per stage (Narayanan et al. 2021, "Efficient Large-Scale
/// Language Model Training on GPU Clusters Using Megatron-LM", section 2.2). Groups of `stages` turns go through one part,
/// then through the next. turns must be a multiple of stages. With one part per stage this is not 1f1b: it starts up to
/// twice as many turns before its first backward.
std::vector<Action> interleaved(const ScheduleShape& shape);

/// The order of an evaluation: forward passes alone. Groups of `stages` turns go through one part, then through the next, as
/// in interleaved; the last group may have fewer. So no stage is idle once the first turn has reached it, but for the last
/// group.
std::vector<Action> forward_only(const ScheduleShape& shape);

enum class Schedule : std::uint8_t { depth_first, gpipe, one_f_one_b, interleaved };

struct ScheduleRow {
  Schedule value;
  const char* name;
  std::vector<Action> (*list)(const ScheduleShape&);
  bool several_stages;  ///< possible with more than one stage
  bool several_parts;   ///< possible with more than one part per stage
  bool whole_groups;    ///< turns must be a multiple of stages
};
/// A schedule is a row here and a function above.
inline constexpr std::array schedules = {ScheduleRow{Schedule::depth_first, "depth_first", depth_first, false, true, false},
                                         ScheduleRow{Schedule::gpipe, "gpipe", gpipe, true, true, false},
                                         ScheduleRow{Schedule::one_f_one_b, "1f1b", one_f_one_b, true, false, false},
                                         ScheduleRow{Schedule::interleaved, "interleaved", interleaved, true, true, true}};
constexpr const auto& table_of(Schedule) { return schedules; }

/// The list of this schedule. fail() if the row says that it is not possible for this shape.
std::vector<Action> actions_of(Schedule schedule, const ScheduleShape& shape);

/// By part of the stage: the largest number of turns that are between their forward and their backward pass at the same
/// time. This many sets of activations must be in memory.
std::vector<std::size_t> slots(const std::vector<Action>& actions);

/// Share of a step in which a stage has nothing to compute, if all parts take the same time, a backward pass takes twice as
/// long as a forward pass, and messages take no time: 1 - v A / (v A + P - 1), with A turns. For fewer turns than stages the
/// share of gpipe with several parts is larger than this.
double ideal_idle_share(const ScheduleShape& shape);

}  // namespace shoal::pipeline
