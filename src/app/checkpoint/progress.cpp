// SPDX-License-Identifier: Apache-2.0
#include "app/checkpoint/progress.hpp"

#include <cmath>

namespace shoal::app {

namespace {

constexpr const char* tokens_number = "progress/tokens";
constexpr const char* training_number = "progress/training_loss";
constexpr const char* validation_number = "progress/validation_loss";
constexpr const char* validation_step_number = "progress/validation_step";
constexpr const char* best_number = "progress/best_validation_loss";
constexpr const char* best_step_number = "progress/best_validation_step";

std::optional<double> number_named(const std::map<std::string, double>& numbers, const char* name) {
  const auto number = numbers.find(name);
  return number == numbers.end() ? std::nullopt : std::optional(number->second);
}

/// A number of steps or tokens. Nothing for a number that can be none: files may come from anywhere.
std::optional<double> count_named(const std::map<std::string, double>& numbers, const char* name) {
  constexpr double most = 9007199254740992;  // 2^53: all whole numbers up to there are doubles
  const auto number = number_named(numbers, name);
  return number && *number >= 0 && *number <= most ? number : std::nullopt;
}

std::optional<LossAt> loss_at(const std::map<std::string, double>& numbers, const char* loss, const char* step) {
  const auto value = number_named(numbers, loss), after = count_named(numbers, step);
  if (!value || !after) return std::nullopt;
  return LossAt{static_cast<std::int64_t>(*after), *value};
}

void put(std::map<std::string, double>& numbers, const std::optional<LossAt>& at, const char* loss, const char* step) {
  if (!at) return;
  numbers[loss] = at->loss;
  numbers[step] = static_cast<double>(at->step);
}

}  // namespace

bool Progress::evaluated(const LossAt& at) {
  if (!std::isfinite(at.loss)) return false;
  validation = at;
  if (best && best->loss <= at.loss) return false;
  best = at;
  return true;
}

std::map<std::string, double> numbers_of(const Progress& progress) {
  std::map<std::string, double> numbers;
  if (progress.tokens) numbers[tokens_number] = *progress.tokens;
  if (progress.training) numbers[training_number] = *progress.training;
  put(numbers, progress.validation, validation_number, validation_step_number);
  put(numbers, progress.best, best_number, best_step_number);
  return numbers;
}

Progress progress_of(const std::map<std::string, double>& numbers) {
  return {.tokens = count_named(numbers, tokens_number),
          .training = number_named(numbers, training_number),
          .validation = loss_at(numbers, validation_number, validation_step_number),
          .best = loss_at(numbers, best_number, best_step_number)};
}

}  // namespace shoal::app
