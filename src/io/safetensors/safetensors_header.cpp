// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file: JSON that may come from anywhere. It is parsed as a stream of events: so the depth is
// limited, a repeated key is noticed, and only known fields are stored.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "shoal/base/error.hpp"
#include "shoal/base/printable.hpp"
#include "shoal/io/safetensors.hpp"

namespace shoal::io {

namespace {

using Json = nlohmann::json;
using Entries = std::map<std::string, SafetensorsEntry>;

struct DTypeSize {
  const char* name;
  std::uint64_t bytes;
};
constexpr DTypeSize dtype_sizes[] = {{"F64", 8}, {"F32", 4}, {"F16", 2},  {"BF16", 2},    {"I64", 8},
                                     {"I32", 4}, {"I16", 2}, {"I8", 1},   {"U64", 8},     {"U32", 4},
                                     {"U16", 2}, {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};

/// For messages: the beginning of a text from the file, with control characters escaped.
std::string shown(const std::string& text) { return printable(text.substr(0, 100)) + (text.size() > 100 ? "..." : ""); }

std::uint64_t size_of_dtype(const std::string& dtype, const std::string& where) {
  std::string known;
  for (const DTypeSize& row : dtype_sizes) {
    if (dtype == row.name) return row.bytes;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  bad_input(where, ": unknown dtype '", shown(dtype), "'; known: ", known);
}

/// {"__metadata__": {text: text, ...}, NAME: {"dtype": text, "shape": [n, ...], "data_offsets": [begin, end]}, ...}
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  HeaderReader(const std::string& where, Entries& entries) : where_(where), entries_(entries) {}

  bool null() override { refuse("null"); }
  bool boolean(bool) override { refuse("a boolean"); }
  bool number_integer(number_integer_t value) override { refuse("the number " + std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { refuse("the number " + text.substr(0, 40)); }
  bool binary(binary_t&) override { refuse("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ != State::numbers) refuse("the number " + std::to_string(value));
    require_input(numbers_.size() < most_dimensions, at(), ": more than ", most_dimensions, " numbers");
    numbers_.push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (state_ == State::metadata) return true;
    if (state_ != State::tensor || field_ != "dtype") refuse("a string");
    dtype_ = value;
    return true;
  }

  bool start_object(std::size_t) override {
    if (state_ == State::begin) {
      state_ = State::names;
    } else if (state_ == State::names) {
      state_ = name_ == "__metadata__" ? State::metadata : State::tensor;
      field_.clear();
      dtype_.reset();
      shape_.reset();
      offsets_.reset();
    } else {
      refuse("an object");
    }
    return true;
  }

  bool key(string_t& value) override {
    if (state_ == State::names) {
      name_ = value;
      const bool fresh = name_ == "__metadata__" ? !std::exchange(metadata_seen_, true) : !entries_.contains(name_);
      require_input(fresh, where_, ": '", shown(name_), "' appears twice in the header");
    } else if (state_ == State::tensor) {
      field_ = value;
      const bool known = field_ == "dtype" || field_ == "shape" || field_ == "data_offsets";
      require_input(known, at(), ": unknown field; allowed: dtype, shape, data_offsets");
      const bool again = field_ == "dtype"   ? dtype_.has_value()
                         : field_ == "shape" ? shape_.has_value()
                                             : offsets_.has_value();
      require_input(!again, at(), ": given twice");
    }
    return true;
  }

  bool end_object() override {
    if (state_ == State::tensor) finish_tensor();
    state_ = state_ == State::names ? State::end : State::names;
    return true;
  }

  bool start_array(std::size_t) override {
    if (state_ != State::tensor || (field_ != "shape" && field_ != "data_offsets")) refuse("a list");
    state_ = State::numbers;
    numbers_.clear();
    return true;
  }

  bool end_array() override {
    state_ = State::tensor;
    (field_ == "shape" ? shape_ : offsets_) = numbers_;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    bad_input(where_, ": the header is not valid JSON at its byte ", position);
  }

 private:
  enum class State { begin, names, metadata, tensor, numbers, end };
  static constexpr std::size_t most_dimensions = 64;

  std::string at() const {
    return where_ + (name_.empty() ? "" : ": " + shown(name_)) + (field_.empty() ? "" : ": " + shown(field_));
  }

  [[noreturn]] void refuse(const std::string& what) const {
    bad_input(at(), ": unexpected: ", what,
              "; a tensor is {\"dtype\": text, \"shape\": [n, ...], \"data_offsets\": [begin, end]}");
  }

  void finish_tensor() {
    field_.clear();
    require_input(dtype_ && shape_ && offsets_, at(), ": ",
                  !dtype_   ? "dtype"
                  : !shape_ ? "shape"
                            : "data_offsets",
                  " is missing");
    require_input(offsets_->size() == 2 && (*offsets_)[0] <= (*offsets_)[1], at(),
                  ": data_offsets must be two byte positions, [begin, end]");
    std::uint64_t bytes = size_of_dtype(*dtype_, at());
    for (const std::uint64_t extent : *shape_) {
      require_input(extent == 0 || bytes <= std::numeric_limits<std::int64_t>::max() / extent, at(),
                    ": the shape is too large");
      bytes *= extent;
    }
    const std::uint64_t begin = (*offsets_)[0], end = (*offsets_)[1];
    require_input(end - begin == bytes, at(), ": data_offsets [", begin, ", ", end, "] hold ", end - begin,
                  " bytes, the shape and ", *dtype_, " need ", bytes);
    entries_[name_] = {*dtype_, {shape_->begin(), shape_->end()}, begin, end};
  }

  const std::string& where_;
  Entries& entries_;
  State state_ = State::begin;
  bool metadata_seen_ = false;
  std::string name_, field_;
  std::optional<std::string> dtype_;
  std::optional<std::vector<std::uint64_t>> shape_, offsets_;
  std::vector<std::uint64_t> numbers_;
};

/// Checks that, sorted by position, each tensor begins where the one before ends, and that the last one ends with the file.
void check_coverage(const Entries& entries, std::uint64_t data_bytes, const std::string& where) {
  std::vector<const Entries::value_type*> order;
  for (const auto& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  std::uint64_t at = 0;
  for (const auto* entry : order) {
    const auto& [name, tensor] = *entry;
    require_input(tensor.end <= data_bytes, where, ": ", shown(name), ": bytes ", tensor.begin, " .. ", tensor.end,
                  " are beyond the end of the file, which has ", data_bytes, " bytes of data");
    require_input(tensor.begin >= at, where, ": ", shown(name), ": begins at byte ", tensor.begin,
                  ", within the tensor before it, which ends at ", at);
    require_input(tensor.begin == at, where, ": ", shown(name), ": begins at byte ", tensor.begin, "; bytes ", at, " .. ",
                  tensor.begin, " belong to no tensor");
    at = tensor.end;
  }
  require_input(at == data_bytes, where, ": the tensors end at byte ", at, " of ", data_bytes, " bytes of data");
}

}  // namespace

std::size_t SafetensorsEntry::elements() const {
  std::size_t product = 1;
  for (const std::size_t extent : shape) product *= extent;
  return product;
}

Entries parse_safetensors_header(std::string_view json, std::uint64_t data_bytes, const std::string& where) {
  Entries entries;
  HeaderReader reader(where, entries);
  try {
    Json::sax_parse(json.begin(), json.end(), &reader);
  } catch (const Json::exception& error) {  // a number that is out of range for all types
    bad_input(where, ": the header is not valid JSON: ", error.what());
  }
  check_coverage(entries, data_bytes, where);
  return entries;
}

}  // namespace shoal::io
