// Bad memory accesses, divisions by zero and endless loops end a dispatch, not the process. The handler does not jump: it
// returns to a function leaving the fibre, so that the kernel restores the signal mask and the alternative stack as after
// any other handler. Signals not raised by a kernel go to the previously installed handler, which under Go is the
// runtime's.
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <ucontext.h>
#include "schedule.h"

namespace msl {

// Below the stacks nothing can be touched; the deepest overflows end there.
static const size_t stacks_guard = 256 * 1024;
static const size_t stacks_size = stacks_guard + (size_t)MSL_STRIDE * (MSL_MAX_THREADS + 1);

static const int fault_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
static struct sigaction fault_before[5];
static char fault_stop;  // its address marks the signal of msl_worker_stop

static void fault_landing() {
  Lane* l = current;
  Group* g = l->group;
  bool below = g->fault.address - (uint64_t)g->stack_map < stacks_guard;
  if (!g->stop && (below ? deep(g, l->index) : check_stacks(g))) leave(g);  // a stack overflow is the cause
  const char* what = "an illegal instruction; the processor may lack what kernels are built for (AVX2 and F16C on amd64)";
  if (g->stop) what = "stopped";
  if (g->fault.signal == SIGFPE || g->fault.signal == SIGTRAP) what = "an integer division by zero";
  if (g->fault.signal == SIGBUS && !g->fault.address) what = "a vector was read or written at an address that is no multiple of its size";
  else if (g->fault.signal == SIGSEGV || g->fault.signal == SIGBUS) {
    const char* ways[] = {"used", "wrote to", "read"};
    fail(g, "thread %u of threadgroup (%u,%u,%u) %s memory that no buffer has, at address 0x%llx", l->index, g->position[0], g->position[1], g->position[2], ways[g->fault.write],
         (unsigned long long)g->fault.address);
  }
  fail(g, "%s, in thread %u of threadgroup (%u,%u,%u)", what, l->index, g->position[0], g->position[1], g->position[2]);
}

// fault_write returns 1 if the access was a store, 2 if it was a load, and 0 if that is unknown.
static int fault_write(const ucontext_t* u) {
#if defined(__x86_64__)
  return u->uc_mcontext.gregs[REG_ERR] & 2 ? 1 : 2;
#else
  // The context holds records of a tag, a size and data. In the record with the fault's syndrome, bit 6 is set for stores.
  const unsigned char* at = (const unsigned char*)u->uc_mcontext.__reserved;
  for (const unsigned char* end = at + sizeof u->uc_mcontext.__reserved; at + 16 <= end;) {
    uint32_t tag, size;
    uint64_t syndrome;
    memcpy(&tag, at, 4);
    memcpy(&size, at + 4, 4);
    memcpy(&syndrome, at + 8, 8);
    if (tag == 0x45535201) return syndrome & 0x40 ? 1 : 2;
    if (tag == 0 || size < 16) break;
    at += size;
  }
  return 0;
#endif
}

// on_fibre reports whether a thread interrupted at sp is running a fibre. Just before and after running a fibre, current
// is set although the thread is on its own stack; it must not leave that stack.
static bool on_fibre(const Lane* l, uintptr_t sp) {
  if (!l) return false;
  uintptr_t from = (uintptr_t)l->group->stack_map;
  return sp >= from && sp < from + stacks_size;
}

static void fault_handler(int signal, siginfo_t* info, void* context) {
  ucontext_t* u = (ucontext_t*)context;
#if defined(__x86_64__)
  uintptr_t sp = (uintptr_t)u->uc_mcontext.gregs[REG_RSP];
#else
  uintptr_t sp = (uintptr_t)u->uc_mcontext.sp;
#endif
  Lane* l = on_fibre(current, sp) ? current : nullptr;
  bool asked = info->si_code == SI_QUEUE && info->si_value.sival_ptr == &fault_stop;
  if (asked && (!l || !l->group->stop)) return;  // too early or too late; the caller of msl_worker_stop asks again
  if (!l) {
    for (int i = 0; i < 5; i++) {
      if (fault_signals[i] != signal) continue;
      struct sigaction& b = fault_before[i];
      if (b.sa_flags & SA_SIGINFO)
        b.sa_sigaction(signal, info, context);
      else if (b.sa_handler == SIG_DFL || b.sa_handler == SIG_IGN) {
        sigaction(signal, &b, nullptr);  // the instruction runs again, and the earlier handler gets the signal
      } else
        b.sa_handler(signal);
    }
    return;
  }
  Group* g = l->group;
  g->fault.address = asked ? 0 : (uint64_t)info->si_addr;
  g->fault.signal = asked ? 0 : signal;
#if defined(__x86_64__)
  // A general protection fault, not a page fault: the instruction wants another alignment.
  if (!asked && signal == SIGSEGV && u->uc_mcontext.gregs[REG_TRAPNO] == 13) g->fault.signal = SIGBUS, g->fault.address = 0;
#endif
  g->fault.write = !asked && signal == SIGSEGV ? fault_write(u) : 0;
  // The landing function gets the worker's spare stack: the fibre's own may have overflowed.
  uintptr_t top = (uintptr_t)g->stacks + (size_t)MSL_MAX_THREADS * MSL_STRIDE + MSL_STACK;
  top &= ~(uintptr_t)63;
#if defined(__x86_64__)
  u->uc_mcontext.gregs[REG_RSP] = (greg_t)(top - 8);
  u->uc_mcontext.gregs[REG_RIP] = (greg_t)fault_landing;
#elif defined(__aarch64__)
  u->uc_mcontext.sp = top;
  u->uc_mcontext.pc = (uint64_t)fault_landing;
#endif
}

static void fault_install() {
  static int state;  // 0 not installed, 1 being installed, 2 installed
  int none = 0;
  if (__atomic_compare_exchange_n(&state, &none, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    struct sigaction a;
    memset(&a, 0, sizeof a);
    a.sa_sigaction = fault_handler;
    a.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigfillset(&a.sa_mask);
    for (int i = 0; i < 5; i++) sigaction(fault_signals[i], &a, &fault_before[i]);
    __atomic_store_n(&state, 2, __ATOMIC_SEQ_CST);
  }
  while (__atomic_load_n(&state, __ATOMIC_SEQ_CST) != 2) {
  }
}

}  // namespace msl
