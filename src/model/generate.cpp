// SPDX-License-Identifier: Apache-2.0
#include "shoal/model/generate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "shoal/base/error.hpp"
#include "shoal/base/philox.hpp"

namespace shoal::model {

namespace {

constexpr std::uint64_t sampling_stream = 0xB492B66FBE98F273U;  // differs from the streams of initial values and dropout

/// A uniform random number in [0, 1) with 32 bits.
double uniform_draw(const GenerateOptions& o, std::uint64_t index) {
  const Philox4 bits = philox(o.seed ^ sampling_stream,
                              {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32U), o.sample, 0});
  return static_cast<double>(bits[0]) * 0x1p-32;
}

/// The tokens that may be drawn. With top_k they are sorted by their logits, equals by their ids.
std::vector<std::int32_t> candidates(Span<const float> logits, std::size_t top_k) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  if (top_k == 0 || top_k >= ids.size()) return ids;
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    const float left = logits[static_cast<std::size_t>(a)], right = logits[static_cast<std::size_t>(b)];
    return left != right ? left > right : a < b;
  };
  const auto last = ids.begin() + static_cast<std::ptrdiff_t>(top_k);
  std::partial_sort(ids.begin(), last, ids.end(), likelier);
  ids.erase(last, ids.end());
  return ids;
}

/// Computes the logits after the last token, with the Decoder if the model has one.
class Continuation {
 public:
  Continuation(Model& model, const ModelOptions& options, Span<const std::int32_t> prompt)
      : model_(model),
        decoder_(model.decoder()),
        block_size_(options.block_size),
        tokens_(prompt.begin(), prompt.end()),
        logits_(options.vocab_size) {
    if (decoder_ != nullptr) {
      block_size_ = std::min(block_size_, decoder_->positions());
      prefill(std::min(tokens_.size(), block_size_));
    } else {
      run_all();
    }
  }
  Span<const float> logits() const { return logits_; }

  void append(std::int32_t token) {
    tokens_.push_back(token);
    if (decoder_ == nullptr) {
      run_all();
    } else if (held_ == block_size_) {
      prefill(std::max<std::size_t>(1, block_size_ / 2));
    } else {
      decoder_->decode(token, logits_);
      ++held_;
    }
  }

 private:
  Span<const std::int32_t> last(std::size_t count) const { return Span<const std::int32_t>(tokens_).last(count); }
  void prefill(std::size_t count) {
    decoder_->prefill(last(count), logits_);
    held_ = count;
  }
  void run_all() {
    const std::size_t count = std::min(tokens_.size(), block_size_);
    model_.logits({1, count, last(count), {}, 0, 0}, logits_);
  }

  Model& model_;
  Decoder* decoder_;
  std::size_t block_size_;
  std::size_t held_ = 0;  // positions in the decoder's cache
  std::vector<std::int32_t> tokens_;
  std::vector<float> logits_;
};

}  // namespace

std::int32_t draw(Span<const float> logits, const GenerateOptions& o, std::uint64_t index) {
  // A comparison with NaN is false, so that the largest logit alone would not show one that comes later.
  const auto nan = std::find_if(logits.begin(), logits.end(), [](float logit) { return std::isnan(logit); });
  const auto likeliest = nan != logits.end() ? nan : std::max_element(logits.begin(), logits.end());
  if (!std::isfinite(*likeliest)) {  // on every rank, since all have the same logits
    throw Error(Exit::failed, Seen::everywhere,
                text("token ", index, " cannot be drawn: the logit of ", likeliest - logits.begin(), " is ", *likeliest));
  }
  if (o.temperature == 0) return static_cast<std::int32_t>(likeliest - logits.begin());
  const std::vector<std::int32_t> ids = candidates(logits, o.top_k);
  std::vector<double> cumulative;  // sums of the probabilities, without their common factor
  cumulative.reserve(ids.size());
  double sum = 0;
  for (const std::int32_t id : ids) {
    sum += std::exp((static_cast<double>(logits[static_cast<std::size_t>(id)]) - static_cast<double>(*likeliest)) /
                    o.temperature);
    cumulative.push_back(sum);
  }
  const auto drawn = std::upper_bound(cumulative.begin(), cumulative.end(), uniform_draw(o, index) * sum);
  return ids[static_cast<std::size_t>(std::min(drawn, cumulative.end() - 1) - cumulative.begin())];
}

std::vector<std::int32_t> generate(Model& model, const ModelOptions& options, Span<const std::int32_t> prompt,
                                   const GenerateOptions& wanted, const std::function<void(std::int32_t)>& on_token) {
  require_input(!prompt.empty(), "the prompt is empty; it needs at least one token");
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    require_input(prompt[i] >= 0 && static_cast<std::size_t>(prompt[i]) < options.vocab_size, "token ", i,
                  " of the prompt is ", prompt[i], "; allowed: 0 to ", options.vocab_size - 1);
  }
  require_input(std::isfinite(wanted.temperature) && wanted.temperature >= 0, "temperature = ", wanted.temperature,
                ": must be 0 (the likeliest token) or greater");
  std::vector<std::int32_t> added;
  if (wanted.tokens == 0) return added;
  Continuation continuation(model, options, prompt);
  for (;;) {
    added.push_back(draw(continuation.logits(), wanted, added.size()));
    if (on_token) on_token(added.back());
    if (added.size() == wanted.tokens) return added;
    continuation.append(added.back());
  }
}

}  // namespace shoal::model
