// SPDX-License-Identifier: Apache-2.0
// Stacks for signal handlers.
//
// [Note: borrowed stack pointers] Code that oneDNN generates at run time may use the stack pointer as a register for data,
// which points into the heap (seen in fp32 products whose first operand is transposed, on processors with AVX-512: a fifth
// of the time of a run of inputs/quickstart.cfg). The kernel writes the frame of a signal below the stack pointer, so a
// handler on such a thread destroys what lies there. Two rules follow:
// - Signals that ask a run to end are blocked on all threads but one, which only runs handlers (app/support/interrupt.hpp).
// - Other signals must reach the thread that they are sent to: faults, and timers of a profiler or of a library. So each
//   thread that runs generated code has an alternate stack, and all handlers use it, including those of libraries.
#pragma once

namespace shoal {

/// Gives the calling thread an alternate stack until it ends, unless it has one already. Later calls cost a comparison.
void use_alternate_stack();

/// Makes all handlers that this process has installed so far run on the alternate stack of the thread that they interrupt
/// (SA_ONSTACK), if it has one. To be called when the libraries have installed theirs.
void put_handlers_on_alternate_stacks();

}  // namespace shoal
