// SPDX-License-Identifier: Apache-2.0
#include "found_source.hpp"

#include <cstring>
#include <string_view>

#include "shoal/base/error.hpp"

namespace shoal::data {

namespace {

void put(std::string& to, std::uint64_t number) { to.append(reinterpret_cast<const char*>(&number), sizeof number); }
void put(std::string& to, const std::string& text) {
  put(to, std::uint64_t{text.size()});
  to += text;
}

class Bytes {
 public:
  explicit Bytes(std::string_view rest) : rest_(rest) {}
  std::uint64_t number() {
    std::uint64_t value = 0;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() { return std::string(take(number())); }

 private:
  std::string_view take(std::size_t bytes) {
    require(bytes <= rest_.size(), "what was found of data.source ends too early");
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }
  std::string_view rest_;
};

}  // namespace

std::string pack_source(const FoundSource& source) {
  std::string bytes;
  put(bytes, source.name);
  put(bytes, source.description);
  put(bytes, std::uint64_t{source.vocab_size});
  put(bytes, std::uint64_t{source.vocabulary.size()});
  for (const std::string& token : source.vocabulary) put(bytes, token);
  put(bytes, std::uint64_t{source.files.size()});
  for (const io::TokenLayout& file : source.files) {
    put(bytes, file.path.string());
    for (const std::uint64_t number : {file.size, file.row_length, file.vocab_size, file.width, file.offset}) {
      put(bytes, number);
    }
  }
  return bytes;
}

FoundSource unpack_source(const std::string& packed) {
  Bytes bytes(packed);
  FoundSource source;
  source.name = bytes.text();
  source.description = bytes.text();
  source.vocab_size = bytes.number();
  source.vocabulary.resize(bytes.number());
  for (std::string& token : source.vocabulary) token = bytes.text();
  source.files.resize(bytes.number());
  for (io::TokenLayout& file : source.files) {
    file.path = bytes.text();
    for (std::size_t* const number : {&file.size, &file.row_length, &file.vocab_size, &file.width}) *number = bytes.number();
    file.offset = bytes.number();
  }
  return source;
}

}  // namespace shoal::data
