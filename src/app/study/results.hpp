// SPDX-License-Identifier: Apache-2.0
// study.json in the study's directory: what was predicted and measured for every point, and the state of its run. `shoal
// study` reads it when it goes on; analysis/scaling.py draws it.
//   format (shoal-study), format_version (1), version, deck, machine {host, device} (what planned; of local runs what ran)
//   study {system, micro, cores_per_rank, scalings, network}
//   options {...}                       the deck's; all points share them, but for what their strategy and grid change
//   points [{name, strategy, scalings, nodes, ranks_per_node, ranks, repeat, micro, global, tokens_per_step,
//     same_trajectory, options {those that differ from the deck's}, limit_bytes,
//     predicted {memory_bytes, state_bytes {kind: n}, sent_bytes_per_step {operation: {intra, inter}},
//       across_bytes_per_node, step_s, compute_s, communication_s, exposed_s (seconds null without study.network)},
//     state (waiting, submitting, queued, running, interrupted, failed, done), job (of the batch system, or null), problem,
//     measured (null until done) {step_s {median, mean, min, max} (of the settled steps: ../train/settled.hpp),
//     tokens_per_s,
//       node_seconds_per_token (both of the mean), memory_bytes, state_bytes {kind: n}, peak_rss_bytes, sent_bytes_per_step
//       {...} (of the last part), final_loss, steps}}]
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/study/point.hpp"
#include "shoal/base/names.hpp"

namespace shoal::app {

inline constexpr const char* study_name = "study.json";

enum class PointState : std::uint8_t {
  waiting,      ///< not started
  submitting,   ///< a batch system may have its job; only the job's name is known ([Note: submitted once] in jobs.hpp)
  queued,       ///< a batch system has its job
  running,      ///< on this machine
  interrupted,  ///< ended early, and goes on from its last checkpoint
  failed,       ///< is started again only on request
  done
};
inline constexpr std::array point_state_names = {Named{PointState::waiting, "waiting"},
                                                 Named{PointState::submitting, "submitting"},
                                                 Named{PointState::queued, "queued"},
                                                 Named{PointState::running, "running"},
                                                 Named{PointState::interrupted, "interrupted"},
                                                 Named{PointState::failed, "failed"},
                                                 Named{PointState::done, "done"}};
constexpr const auto& table_of(PointState) { return point_state_names; }

/// Figures of a finished run.
struct Measured {
  double step_s = 0;             ///< mean of the settled steps
  std::size_t memory_bytes = 0;  ///< taken by the largest rank
  /// What a node costs: nodes x seconds of a step / tokens of a step.
  double node_seconds_per_token = 0;
};

/// What is known of a point's run.
struct PointRecord {
  PointState state = PointState::waiting;
  std::string job;      ///< id in the batch system; empty: none
  std::string problem;  ///< why it failed
  std::optional<Measured> measured;
};

class StudyResults {
 public:
  /// Reads the results in `directory`, if there are any, and the summaries of all points. bad_input() if they are of another
  /// version of the program, of another deck, or cannot be read, or if a point's directory holds another run. Changes no
  /// file.
  StudyResults(std::filesystem::path directory, const config::Invocation& study, const StudyRequest& request,
               std::vector<StudyPoint> points);
  ~StudyResults();
  StudyResults(const StudyResults&) = delete;
  StudyResults& operator=(const StudyResults&) = delete;

  const std::vector<StudyPoint>& points() const { return points_; }
  const PointRecord& record(std::size_t point) const { return records_[point]; }
  std::filesystem::path directory() const { return directory_; }
  std::filesystem::path directory(std::size_t point) const { return directory_ / points_[point].name; }
  /// Points in the file that the study does not have now. They stay in the file as they are.
  const std::vector<std::string>& left_over() const { return left_over_; }

  /// Changes the state, and writes the file.
  void set(std::size_t point, PointState state, const std::string& job = {}, const std::string& problem = {});
  /// The point was not submitted: it waits, or goes on with a run that was begun.
  void set_not_submitted(std::size_t point);
  /// Reads the point's summary, if its run has written one: done or interrupted. Writes the file if that changes its state.
  /// Returns false if there is none.
  bool collect(std::size_t point);
  /// Writes the file, completely or not at all.
  void write() const;

 private:
  bool read_summary(std::size_t point);
  void read_file();
  void read_point(const nlohmann::ordered_json& found);
  nlohmann::ordered_json json_of(std::size_t point) const;

  std::filesystem::path directory_;
  StudyRequest request_;
  std::vector<StudyPoint> points_;
  std::vector<PointRecord> records_;
  std::vector<std::string> left_over_;
  struct Json;  ///< what of the file and of the summaries is kept as JSON
  std::unique_ptr<Json> json_;
};

}  // namespace shoal::app
