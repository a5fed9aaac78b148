// SPDX-License-Identifier: Apache-2.0
// A tiny GPT in three variants (untied, tied, with a direct connection), whole and in pipelines of FairScale and PyTorch, in
// double precision: oracles/pipe (shared_data.hpp). Its names and its linear weights, [out, in], are translated to ours.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shoal/model/model.hpp"
#include "support/oracle.hpp"

namespace shoal::test {

/// Limits that come with the file. They are for programs in float, whose sums have other orders than PyTorch's; gradients:
/// relative to the largest of the tensor.
struct PipeLimits {
  static constexpr double loss = 5e-6, logits = 1e-5, gradient = 2e-5;
};

class PipeOracle {
 public:
  static std::filesystem::path file() { return shared_data("oracles/pipe/pipe.h5"); }

  /// variant: untied, tied or direct. The file must exist.
  explicit PipeOracle(std::string variant) : variant_(std::move(variant)), file_(file()) {
    nlohmann::json models = read_json(shared_data("oracles/pipe/pipe.json")).at("models");
    for (nlohmann::json& each : models) {
      if (each.at("model") == variant_) about_ = std::move(each);
    }
    inputs_ = file_.dataset<std::int32_t>("tokens/x");
    targets_ = file_.dataset<std::int32_t>("tokens/y");
  }

  model::ModelOptions options() const {
    const nlohmann::json& config = about_.at("config");
    model::ModelOptions o;
    o.n_layer = config.at("n_layer");
    o.n_head = config.at("n_head");
    o.n_embd = config.at("n_embd");
    o.block_size = config.at("block");
    o.vocab_size = config.at("vocab");
    o.tied = variant_ == "tied";
    o.direct = variant_ == "direct";
    return o;
  }
  std::size_t sequences() const { return about_.at("config").at("batch"); }
  double loss() const { return about_.at("loss"); }
  double norm() const { return about_.at("grad_norm"); }
  /// Of each sequence.
  std::vector<double> losses() const { return file_.dataset<double>(variant_ + "/micro_losses_8"); }
  /// [sequences, block_size, vocab_size]
  std::vector<double> logits() const { return file_.dataset<double>(variant_ + "/logits"); }
  std::vector<float> initial(const model::Parameter& p) const {
    return ours(p, file_.dataset<float>(variant_ + "/init/" + name_of(p.name)));
  }
  std::vector<double> gradient(const model::Parameter& p) const {
    return ours(p, file_.dataset<double>(variant_ + "/grads/" + name_of(p.name)));
  }

  /// Micro-batch m of `count` equal ones.
  model::MicroBatch micro_batch(std::size_t m, std::size_t count) const {
    const std::size_t length = options().block_size, rows = sequences() / count * length;
    return {sequences() / count,
            length,
            Span<const std::int32_t>(inputs_).subspan(m * rows, rows),
            Span<const std::int32_t>(targets_).subspan(m * rows, rows),
            0,
            static_cast<std::uint32_t>(m * (sequences() / count))};
  }
  /// Mean loss of that micro-batch.
  double loss_of(std::size_t m, std::size_t count) const {
    const std::vector<double> all = losses();
    const std::size_t each = all.size() / count;
    double sum = 0;
    for (std::size_t i = m * each; i < (m + 1) * each; ++i) sum += all[i];
    return sum / static_cast<double>(each);
  }

 private:
  /// The name of one of our tensors in the file.
  static std::string name_of(std::string name) {
    const std::pair<std::string_view, std::string_view> changes[] = {
        {"transformer.w", "embed.w"}, {"transformer.ln_f", "head.ln_f"}, {"transformer.h.", "h"},
        {"attn.c_proj", "attn_proj"}, {"mlp.c_proj", "mlp_proj"},        {"attn.c_attn", "c_attn"},
        {"mlp.c_fc", "c_fc"},         {"lm_head.", "head.lm_head."},     {"direct.", "head.direct."}};
    for (const auto& [from, to] : changes) {
      if (const std::size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
    }
    return name;
  }

  /// Linear weights within blocks are transposed.
  template <typename V>
  static std::vector<V> ours(const model::Parameter& p, const std::vector<V>& theirs) {
    require(theirs.size() == p.elements(), p.name, " has ", theirs.size(), " elements in the oracle");
    if (p.is_vector() || p.name.find(".h.") == std::string::npos) return theirs;
    const std::size_t rows = p.shape[0], columns = p.shape[1];
    std::vector<V> values(theirs.size());
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) values[i * columns + j] = theirs[j * rows + i];
    }
    return values;
  }

  std::string variant_;
  Hdf5 file_;
  nlohmann::json about_;
  std::vector<std::int32_t> inputs_, targets_;
};

/// The largest absolute value.
inline double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

}  // namespace shoal::test
