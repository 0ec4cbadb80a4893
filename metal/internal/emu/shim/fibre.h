// The emulated threadgroup: one OS thread runs one threadgroup at a time, with one fibre per Metal
// thread. A fibre runs until it waits for others. Then the next runnable fibre continues, preferring
// fibres of the same simdgroup.
#pragma once
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include "abi.h"

#define MSL_SIMD 32
#define MSL_MAX_THREADS 1024
#define MSL_MAX_MEMORY 32768
// The stack of a fibre. The additional 320 bytes put the hot ends of neighbouring stacks on
// different cache sets: with stacks a power of two apart a barrier of 1024 threads took 88 us
// instead of 11.
#define MSL_STACK (32 * 1024)
#define MSL_STRIDE (MSL_STACK + 320)
// The bytes after every threadgroup array that must not change.
#define MSL_RED_ZONE 128
#define MSL_SITES 64

// Functions standing for one instruction of a GPU. A library that counts keeps them out of line,
// because their emulation is not the kernel's work.
#ifdef MSL_COUNT
#define MSL_APART static __attribute__((noinline))
#define MSL_APART_MEMBER __attribute__((noinline))
#else
#define MSL_APART static inline __attribute__((always_inline))
#define MSL_APART_MEMBER inline
#endif

// The part of the runtime used by kernels. The runtime is a shared object of its own: a process has
// one runtime, however many libraries of kernels it loads. The runtime has the handler of faults,
// and uses the small amount of static TLS that a process can spare.
#define MSL_API __attribute__((visibility("default")))
#define MSL_SLOW __attribute__((visibility("default"), noinline))

namespace msl {

enum State : uint32_t { RUN = 0, WAIT_SIMD, WAIT_BARRIER, DONE };

// Site is a place in the kernel's source. It is not a code address, because the compiler may
// copy or merge code.
struct Site {
  const char* file;
  const char* op;
  int line;
};
static inline bool same(const Site& a, const Site& b) { return a.line == b.line && a.op == b.op && a.file == b.file; }

struct Group;
struct Simd;

// Lane is a Metal thread. It is at the top of its own stack.
struct alignas(64) Lane {
  void* sp;
  Simd* simd;
  Group* group;
  Lane *next, *next_in_simd;  // rings in the order of the dispatch
  uint32_t state, epoch, lane, index, simdgroup;
  uint32_t in_group[3], in_grid[3];
  Site site;
  // The number of barriers that this thread has reached: barriers of the threadgroup, and barriers
  // of either kind. [0] counts barriers ordering device memory, [1] barriers ordering threadgroup
  // memory.
  uint32_t group_fences[2], simd_fences[2];
};

// Simd is a simdgroup. An operation's values meet in slot[parity] and its result is in res[parity];
// the parity changes with each operation, so that a lane running ahead does not overwrite values
// still being read by others.
struct alignas(64) Simd {
  typedef void (*Finish)(Simd*, unsigned parity, uint32_t mask);
  uint32_t arrived, active, epoch, lanes;
  uint32_t mask[2];
  Site site;
  Finish finish;
  Lane* lane[MSL_SIMD];
  alignas(64) unsigned char slot[2][MSL_SIMD][64];
  alignas(64) unsigned char res[2][512];
};

struct Stats {
  uint64_t switches, barriers, simd_ops, threads;
};

// Group is a worker and the threadgroup it runs.
struct Group {
  void* main_sp;
  uint32_t n, simdgroups, alive, arrived, epoch;
  int failed, running;
  volatile int stop;
  uint32_t full[3], size[3], position[3], groups[3], grid[3];
  void** bufs;
  uint64_t* lens;
  msl_entry fn;
  Lane* lanes[MSL_MAX_THREADS];
  Simd* simds;
  unsigned char *stacks, *memory;
  void* stack_map;
  uint32_t memory_used, memory_top, memory_limit, poison, nsites;
  struct {
    const void* id;
    const char* name;
    unsigned char* at;
    uint32_t size;
  } sites[MSL_SITES];
  pthread_mutex_t lock;  // of thread and running
  pthread_t thread;
  Stats stats;
  msl_fault fault;
  msl_counts* counts;     // of the dispatch, null if nothing is counted
  struct Shadow* shadow;  // of libraries that check fences, null before the first access
  char err[512];
};

// The fibre running on this thread, null outside of kernels. It has the fast TLS model initial-exec,
// because every operation reads it.
extern __attribute__((tls_model("initial-exec"), visibility("default"))) __thread Lane* current;

extern "C" MSL_API void msl_switch(void** save, void* to);

[[noreturn]] MSL_SLOW void fail(Group* g, const char* format, ...);

static inline bool runnable(const Lane* l) {
  switch (l->state) {
    case RUN:
      return true;
    case WAIT_BARRIER:
      return l->group->epoch != l->epoch;
    case WAIT_SIMD:
      return l->simd->epoch != l->epoch;
    default:
      return false;
  }
}

static inline void resume(Lane* from, Lane* to) {
  from->group->stats.switches++;
  to->state = RUN;
  current = to;
  msl_switch(&from->sp, to->sp);
}

MSL_SLOW void block_slow(Lane* l);

// block is called by a lane after setting the event it waits for; it returns once the lane can run
// again.
static inline void block(Lane* l) {
  Lane* n = l->next_in_simd;
  if (__builtin_expect(n != l && runnable(n), 1)) {
    resume(l, n);
    return;
  }
  block_slow(l);
}

// fence counts a barrier ordering the kinds of memory named by flags: 1 for device memory, 2 for
// threadgroup memory.
static inline void fence(uint32_t flags, bool whole_group) {
  for (int kind = 0; kind < 2; kind++) {
    if (!(flags >> kind & 1)) continue;
    current->simd_fences[kind]++;
    if (whole_group) current->group_fences[kind]++;
  }
}

// barrier waits for all threads of the threadgroup.
MSL_SLOW void barrier(Site site);

MSL_SLOW void* storage_slow(Group* g, const void* id, const char* name, size_t size, size_t align);

// storage returns the memory of a `threadgroup T name[N];` in a kernel's body; id distinguishes the
// declaration from all others. The first thread calling it allocates the memory. The address is a
// multiple of align and of no larger power of two, so that storing a wider vector there faults.
MSL_APART void* storage(const void* id, const char* name, size_t size, size_t align) {
  Group* g = current->group;
  for (uint32_t i = 0; i < g->nsites; i++)
    if (g->sites[i].id == id) return g->sites[i].at;
  return storage_slow(g, id, name, size, align);
}

MSL_SLOW void wrong_site(Simd* s, Site site);

// meet is an operation of a simdgroup: every active lane of the simdgroup gives v,
// the last to arrive runs finish, and all return the parity of slot and res.
template <class T>
static inline unsigned meet(const T& v, Site site, Simd::Finish finish) {
  static_assert(sizeof(T) <= 64, "a simdgroup operation's value has at most 64 bytes");
  Lane* l = current;
  Simd* s = l->simd;
  uint32_t e = s->epoch, p = e & 1;
  __builtin_memcpy(s->slot[p][l->lane], &v, sizeof(T));
  if (s->arrived == 0) {
    s->site = site;
    s->finish = finish;
    s->mask[p] = 0;
  } else if (__builtin_expect(!same(s->site, site), 0)) {
    wrong_site(s, site);
  }
  s->mask[p] |= 1u << l->lane;
  if (++s->arrived == s->active) {
    finish(s, p, s->mask[p]);
    s->arrived = 0;
    s->epoch = e + 1;
    l->group->stats.simd_ops++;
  } else {
    l->state = WAIT_SIMD;
    l->epoch = e;
    block(l);
  }
  return p;
}

}  // namespace msl
