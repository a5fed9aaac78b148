// SPDX-License-Identifier: Apache-2.0
// How many borders a stage must have room for.
//
// A border is received into a buffer of its part, in turn order. A buffer of gradients is free again after the backward pass
// that reads it, and one of activations too: the backward pass of the part needs its input again. (If a list has only
// forward passes, after the forward pass.) A border that is made is written to a send buffer, which is free when the message
// is complete. Within one stage there are no messages: what a part makes is written to the buffer from which the next reads.
#pragma once

#include <vector>

#include "shoal/pipeline/border.hpp"
#include "shoal/pipeline/buffer_counts.hpp"

namespace shoal::pipeline {

/// By stage. For several stages there are, of each part and kind,
/// - as many receive buffers as the list has in use at the same time: slots() of activations, one of gradients. Fewer cannot
///   work;
/// - one more, so that the next border arrives while the stage computes;
/// - at least as many of gradients as wait in the timeline of equal parts, whose messages take no time. In `gpipe` with
///   several parts, the first stage makes the gradients of many turns before the last stage reads the first of them.
/// And there are two send buffers of each kind: one is written while the other is sent. No number is larger than that of
/// turns. With these buffers the timeline of equal parts is the same as without any limit. With one stage there is what the
/// list has in use.
///
/// What the skip connection carries comes long before it is read: activations pass all stages in the middle by, and
/// gradients come back before those that go through these stages. So there are as many receive buffers as wait in the
/// timelines of equal parts, whose messages take no time or as long as a forward pass; of activations for several parts per
/// stage at least one for each stage, since an evaluation takes so many turns through the first part before the first of
/// them comes to the last.
///
/// [Note: lists do not starve] A stage takes its actions in a fixed order, and each border goes through a channel of its
/// part and kind, whose capacity is fixed. Whether such a network comes to its end does not depend on when messages arrive
/// (Kahn 1974). So it is enough that one execution does with these buffers; program_of() makes one, and fails otherwise.
///
/// Stages 2 and 3 of ZeRO also reduce gradients and gather parameters among the data-parallel ranks of a stage, which have
/// the same list. Each rank starts and awaits these collectives at the same places of its list as the others. They are
/// channels, too: a rank starts a collective without waiting for anyone, and later waits until the others have started it.
/// (A collective of several exchanges goes on while a rank waits for something else: comm::Request.) If the ranks of each
/// stage go through their lists side by side, none waits for another one of its stage, and each pipeline is executed as if
/// it were alone. So this execution comes to its end, and with it every other.
std::vector<Buffers> buffers_of(const Lists& lists, const ScheduleShape& shape);

}  // namespace shoal::pipeline
