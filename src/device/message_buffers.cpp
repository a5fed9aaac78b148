// SPDX-License-Identifier: Apache-2.0
#include "message_buffers.hpp"

#include "shoal/base/error.hpp"

namespace shoal::device {

namespace {

const char* words_for(Use use) {
  switch (use) {
    case Use::kernels: return "kernels alone";
    case Use::messages: return "messages of one rank to another alone";
    case Use::collectives: break;
  }
  return "messages and collectives";
}

void require_taken_for(Use needed, const Memory::Place& place) {
  require(place.use >= needed, name_of(place.kind), ": ", place.label, ", byte ", place.byte, " of ", place.bytes,
          ", is used by a ", needed == Use::collectives ? "collective of the library that sends messages" : "message",
          ", and was taken for ", words_for(place.use));
}

}  // namespace

std::byte* image_of(Span<const std::byte> memory, Calls calls, const std::function<void(const Memory::Place&)>& each) {
  const Use needed = calls == Calls::collectives ? Use::collectives : Use::messages;
  std::byte* image = nullptr;
  for (std::size_t at = 0; at < memory.size();) {
    const std::optional<Memory::Place> place = Memory::place_of(memory.data() + at);
    require(place.has_value(), "a message of ", memory.size(), " bytes uses memory that nobody has taken, from byte ", at);
    require_taken_for(needed, *place);
    if (at == 0) image = place->image;
    if (each) each(*place);
    at += place->bytes - place->byte;
  }
  if (reach_arenas(calls)) return nullptr;
  require(image != nullptr,
          "a message passes through memory of the host that was not planned: the run's memory was counted "
          "for a library that reaches arenas");
  return image;
}

}  // namespace shoal::device
