// SPDX-License-Identifier: Apache-2.0
// The message about an access to memory of the simulated device that is out of reach.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>

#include "device/simulated/simulated_mappings.hpp"
#include "shoal/base/error.hpp"

namespace shoal::device::simulated {

namespace {

struct sigaction before;

/// A line of text that needs no other memory than its own. What does not fit is left out.
class ReportLine {
 public:
  ReportLine& add(std::string_view part) {
    const std::size_t length = std::min(part.size(), text_.size() - 1 - length_);
    std::copy_n(part.begin(), length, text_.begin() + length_);
    length_ += length;
    return *this;
  }
  ReportLine& add(std::size_t number) {
    std::array<char, 20> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    return add(std::string_view(digits.data(), static_cast<std::size_t>(end - digits.data())));
  }
  void print() {
    text_[length_++] = '\n';
    static_cast<void>(!write(STDERR_FILENO, text_.data(), length_));
  }

 private:
  std::array<char, 400> text_{};
  std::size_t length_ = 0;
};

std::optional<Memory::Place> place_in(const Mapping& mapping, const void* address) {
  if (mapping.state == Mapping::State::arena) return Memory::place_of(address);
  auto byte = static_cast<std::size_t>(static_cast<const std::byte*>(address) - mapping.begin);
  for (const Memory::Entry& buffer : mapping.buffers) {
    if (byte < buffer.bytes) return Memory::Place{buffer.kind, buffer.label.c_str(), byte, buffer.bytes};
    byte -= buffer.bytes;
  }
  return std::nullopt;
}

void print(const Mapping& mapping, const void* address) {
  ReportLine line;
  line.add(mapping.state == Mapping::State::arena
               ? "shoal: the host accessed memory of the device outside of kernels and copies: "
               : "shoal: access to released memory of the device, for whose use nobody has waited: ");
  const std::optional<Memory::Place> place = place_in(mapping, address);
  if (place) {
    line.add(name_of(place->kind)).add(": ").add(place->label).add(", byte ").add(place->byte).add(" of ").add(place->bytes);
  } else {
    line.add("unknown buffer");
  }
  line.print();
}

/// The signal handler. It interrupts any thread at an access to memory, so it must not call anything that takes a lock or
/// allocates. Returning repeats the access, with the handler that was there before, which ends the program.
void on_fault(int signal_number, siginfo_t* what, void* /*context*/) {
  const int error = errno;
  if (const Mapping* const mapping = mapping_of(what->si_addr)) print(*mapping, what->si_addr);
  sigaction(signal_number, &before, nullptr);
  errno = error;
}

}  // namespace

void watch_for_faults() {
  static const bool watching = [] {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;  // the former handler may need its own stack
    return sigaction(SIGSEGV, &action, &before) == 0;
  }();
  require(watching, "faults of the simulated device's memory cannot be watched");
}

}  // namespace shoal::device::simulated
