// SPDX-License-Identifier: Apache-2.0
// A thread whose stack pointer lies in the heap, as in code that oneDNN generates ([Note: borrowed stack pointers],
// base/alternate_stack.hpp), at the moment when it gets a signal.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace shoal::support {

constexpr bool can_borrow_the_stack_pointer() {
#ifdef __x86_64__
  return true;
#else
  return false;
#endif
}

/// Sends the signal to a thread of this process (the caller, or one that lets any thread of the process receive it: 0),
/// while the stack pointer of the calling thread points into the middle of an array, and returns how many bytes of the array
/// have changed afterwards. The system call and what follows use neither stack nor memory.
inline std::size_t bytes_changed_by(int signal, pid_t thread) {
  constexpr std::size_t bytes = std::size_t{128} << 10U;  // the frame of a signal takes 11 KiB at most
  constexpr unsigned char pattern = 0xa5;
  std::vector<unsigned char> heap(bytes, pattern);
#ifdef __x86_64__
  unsigned char* const middle = heap.data() + bytes / 2;
  long result = thread != 0 ? SYS_tgkill : SYS_kill;
  const long process = getpid(), second = thread != 0 ? thread : signal, third = signal;
  asm volatile(
      "mov %%rsp, %%r12\n\t"
      "mov %[middle], %%rsp\n\t"
      "syscall\n\t"  // the signal arrives when the system call returns
      "mov $2000000, %%r13\n"
      "1:\tdec %%r13\n\t"  // or somewhat later, if another processor has sent it
      "jnz 1b\n\t"
      "mov %%r12, %%rsp"
      : "+a"(result)
      : [middle] "r"(middle), "D"(process), "S"(second), "d"(third)
      : "rcx", "r11", "r12", "r13", "memory", "cc");
#else
  static_cast<void>(signal);
  static_cast<void>(thread);
#endif
  return static_cast<std::size_t>(std::count_if(heap.begin(), heap.end(), [](unsigned char b) { return b != pattern; }));
}

}  // namespace shoal::support
