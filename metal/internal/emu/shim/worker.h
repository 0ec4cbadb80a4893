// Workers, running the threadgroups of a dispatch.
#pragma once
#include "count.h"
#include "fault.h"
#include "shadow.h"
#include <stdlib.h>
#include <sys/mman.h>

#define MSL_EXPORT extern "C" __attribute__((visibility("default")))

namespace msl {

// Random is xorshift64*, seeded per threadgroup.
struct Random {
  uint64_t state;
  Random(uint64_t seed, uint64_t stream) : state((seed + 1) * 6364136223846793005ull ^ (stream + 1) * 0x9E3779B97F4A7C15ull) {
    if (!state) state = 1;
  }
  uint32_t below(uint32_t n) {
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return (uint32_t)((state * 0x2545F4914F6CDD1Dull >> 32) % n);
  }
  void shuffle(uint32_t* v, uint32_t n) {
    for (uint32_t i = n; i > 1; i--) {
      uint32_t j = below(i), x = v[i - 1];
      v[i - 1] = v[j], v[j] = x;
    }
  }
};

// place sets the position of threadgroup number i in the grid, and its threads.
static void place(Group* g, const msl_dispatch* d, uint64_t i) {
  uint32_t at[3] = {(uint32_t)(i % d->tgs[0]), (uint32_t)(i / d->tgs[0] % d->tgs[1]), (uint32_t)(i / ((uint64_t)d->tgs[0] * d->tgs[1]))};
  for (int k = 0; k < 3; k++) {
    uint64_t left = d->grid[k] - (uint64_t)at[k] * d->ntg[k];
    g->position[k] = at[k];
    g->groups[k] = d->tgs[k];
    g->grid[k] = d->grid[k];
    g->full[k] = d->ntg[k];
    g->size[k] = left < d->ntg[k] ? (uint32_t)left : d->ntg[k];
  }
  g->n = g->alive = g->size[0] * g->size[1] * g->size[2];
  g->arrived = g->epoch = 0;
  g->simdgroups = (g->n + MSL_SIMD - 1) / MSL_SIMD;
  g->nsites = 0;
  g->memory_used = g->memory_top = (d->smem + 15) & ~15u;
  g->memory_top += MSL_RED_ZONE;
  g->memory_limit = d->limit ? (d->limit + 15) & ~15u : MSL_MAX_MEMORY;
  g->poison = d->poison;
  if (d->poison) memset(g->memory, 0xFF, d->smem);
  memset(g->memory + g->memory_top - MSL_RED_ZONE, 0xFF, MSL_RED_ZONE);
  g->stats.threads += g->n;
}

// make_lanes makes a fibre per thread, at the beginning of the kernel.
static void make_lanes(Group* g, const msl_dispatch* d) {
  for (uint32_t s = 0; s < g->simdgroups; s++) {
    Simd& m = g->simds[s];
    m.arrived = m.epoch = 0;
    m.mask[0] = m.mask[1] = 0;
    m.lanes = m.active = g->n - s * MSL_SIMD < MSL_SIMD ? g->n - s * MSL_SIMD : MSL_SIMD;
    if (d->poison) memset(m.slot, 0xFF, sizeof m.slot);
  }
  for (uint32_t i = 0; i < g->n; i++) {
    unsigned char* base = stack_of(g, i);
    Lane* l = (Lane*)(((uintptr_t)base + MSL_STACK - sizeof(Lane)) & ~(uintptr_t)63);
    memcpy(base, &stack_mark, sizeof stack_mark);
    g->lanes[i] = l;
    l->group = g;
    l->index = i;
    l->lane = i % MSL_SIMD;
    l->simdgroup = i / MSL_SIMD;
    l->simd = &g->simds[l->simdgroup];
    l->simd->lane[l->lane] = l;
    l->state = RUN;
    l->site = Site{"", "", 0};
    for (int k = 0; k < 2; k++) l->group_fences[k] = l->simd_fences[k] = 0;
    l->in_group[0] = i % g->size[0];
    l->in_group[1] = i / g->size[0] % g->size[1];
    l->in_group[2] = i / (g->size[0] * g->size[1]);
    for (int k = 0; k < 3; k++) l->in_grid[k] = g->position[k] * d->ntg[k] + l->in_group[k];
    void** sp = (void**)l - MSL_FRAME_WORDS;
    memset(sp, 0, MSL_FRAME_WORDS * sizeof *sp);
    sp[MSL_FRAME_ENTRY] = (void*)lane_main;
    l->sp = sp;
  }
}

// link_lanes links the lanes into rings, in the order of the dispatch, and returns the first lane.
static Lane* link_lanes(Group* g, const msl_dispatch* d, uint64_t i) {
  Random r(d->seed, i);
  uint32_t simds[MSL_MAX_THREADS / MSL_SIMD], order[MSL_MAX_THREADS], n = 0;
  for (uint32_t s = 0; s < g->simdgroups; s++) simds[s] = d->order == MSL_REVERSE ? g->simdgroups - 1 - s : s;
  if (d->order == MSL_RANDOM) r.shuffle(simds, g->simdgroups);
  for (uint32_t k = 0; k < g->simdgroups; k++) {
    uint32_t s = simds[k], m = g->simds[s].lanes, *ring = order + n;
    for (uint32_t j = 0; j < m; j++) ring[j] = s * MSL_SIMD + (d->order == MSL_REVERSE ? m - 1 - j : j);
    if (d->order == MSL_RANDOM) r.shuffle(ring, m);
    for (uint32_t j = 0; j < m; j++) g->lanes[ring[j]]->next_in_simd = g->lanes[ring[(j + 1) % m]];
    n += m;
  }
  for (uint32_t j = 0; j < n; j++) g->lanes[order[j]]->next = g->lanes[order[(j + 1) % n]];
  return g->lanes[order[0]];
}

static const char* check_arguments(Group* g, const msl_dispatch* d) {
  uint32_t end = (d->smem + 15) & ~15u;
  for (uint32_t b = end; b < end + MSL_RED_ZONE; b++)
    if (g->memory[b] != 0xFF) {
      snprintf(g->err, sizeof g->err, "threadgroup (%u,%u,%u) wrote byte %u of its threadgroup arguments' memory, which has %u", g->position[0], g->position[1], g->position[2], b, d->smem);
      return g->err;
    }
  return nullptr;
}

// shown is the number of the threadgroup that runs as the i-th of n.
static uint64_t shown(const msl_dispatch* d, uint64_t i, uint64_t n) {
  if (d->order == MSL_REVERSE) return n - 1 - i;
  if (d->order != MSL_RANDOM || n < 3) return i;
  uint64_t step = d->seed % n | 1;  // has no factor in common with n below, so that i * step modulo n takes every value once
  for (;; step += 2) {
    uint64_t a = step, b = n;
    while (b) {
      uint64_t c = a % b;
      a = b, b = c;
    }
    if (a == 1) break;
  }
  return (uint64_t)((unsigned __int128)(i + d->seed % n) * step % n);
}

}  // namespace msl

MSL_EXPORT void* msl_worker_new(void) {
  using namespace msl;
  fault_install();
  Group* g = (Group*)calloc(1, sizeof(Group));
  if (!g) return nullptr;
  pthread_mutex_init(&g->lock, nullptr);
  g->simds = (Simd*)aligned_alloc(64, sizeof(Simd) * (MSL_MAX_THREADS / MSL_SIMD));
  g->memory = (unsigned char*)aligned_alloc(4096, (memory_size + 4095) & ~(size_t)4095);
  g->stack_map = mmap(nullptr, stacks_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (!g->simds || !g->memory || g->stack_map == MAP_FAILED) {
    if (g->stack_map == MAP_FAILED) g->stack_map = nullptr;
    msl_worker_free(g);
    return nullptr;
  }
  // No huge pages. Without them a barrier of 1024 threads is a tenth slower, but a worker that
  // once ran 256 threads holds 2 MiB and not 10.
  g->stacks = (unsigned char*)g->stack_map + stacks_guard;
  mprotect(g->stack_map, stacks_guard, PROT_NONE);
  return g;
}

MSL_EXPORT void msl_worker_free(void* w) {
  msl::Group* g = (msl::Group*)w;
  if (!g) return;
  if (g->stack_map) munmap(g->stack_map, msl::stacks_size);
  msl::shadow_free(g);
  free(g->simds);
  free(g->memory);
  free(g);
}

MSL_EXPORT const char* msl_worker_err(void* w) { return ((msl::Group*)w)->err; }

MSL_EXPORT void msl_worker_fault(void* w, msl_fault* out) { *out = ((msl::Group*)w)->fault; }

MSL_EXPORT void msl_worker_stats(void* w, uint64_t out[4]) { memcpy(out, &((msl::Group*)w)->stats, sizeof(msl::Stats)); }

MSL_EXPORT void msl_worker_stop(void* w) {
  msl::Group* g = (msl::Group*)w;
  pthread_mutex_lock(&g->lock);  // keeps the thread in msl_run, so that it has not ended when the signal comes
  if (g->running) {
    __atomic_store_n(&g->stop, 1, __ATOMIC_SEQ_CST);
    union sigval v;
    v.sival_ptr = &msl::fault_stop;
    pthread_sigqueue(g->thread, SIGSEGV, v);
  }
  pthread_mutex_unlock(&g->lock);
}

namespace msl {
// Rounding is the processor's register controlling flushing of subnormal numbers to zero.
#if defined(__x86_64__)
typedef uint32_t Rounding;
static const Rounding flushing = 1 << 15 | 1 << 6;  // of results, of arguments
static Rounding rounding() { return __builtin_ia32_stmxcsr(); }
static void set_rounding(Rounding r) { __builtin_ia32_ldmxcsr(r); }
#else
typedef uint64_t Rounding;
static const Rounding flushing = 1 << 24;
static Rounding rounding() {
  Rounding r;
  asm volatile("mrs %0, fpcr" : "=r"(r));
  return r;
}
static void set_rounding(Rounding r) { asm volatile("msr fpcr, %0" ::"r"(r)); }
#endif
}  // namespace msl

MSL_EXPORT int msl_run(void* w, msl_dispatch* d, uint64_t lo, uint64_t hi) {
  using namespace msl;
  Group* g = (Group*)w;
  g->fn = d->fn;
  g->bufs = d->bufs;
  g->lens = d->lens;
  g->counts = d->counts;
  const Stats began = g->stats;
  g->failed = 0;
  g->err[0] = 0;
  g->fault = msl_fault{0, 0, 0};
  pthread_mutex_lock(&g->lock);
  g->thread = pthread_self();
  g->running = 1;
  pthread_mutex_unlock(&g->lock);
  Rounding before = rounding();
  if (d->flush) set_rounding(before | flushing);
  for (uint64_t i = 0; i < hi - lo && !g->failed; i++) {
    if (__atomic_load_n(&g->stop, __ATOMIC_SEQ_CST)) {
      snprintf(g->err, sizeof g->err, "stopped");
      g->failed = 1;
      break;
    }
    uint64_t at = lo + shown(d, i, hi - lo);
    place(g, d, at);
    if (d->counts) d->counts->turn = (uint32_t)at + 1;
    make_lanes(g, d);
    shadow_begin(g);
    Lane* first = link_lanes(g, d, at);
    current = first;
    msl_switch(&g->main_sp, first->sp);
    current = nullptr;
    const char* late = g->failed ? nullptr : check_stacks(g);
    if (!late && !g->failed) late = check_memory(g);
    if (!late && !g->failed) late = check_arguments(g, d);
    if (late) g->failed = 1;
  }
  set_rounding(before);
  if (d->counts) {
    d->counts->barriers += g->stats.barriers - began.barriers;
    d->counts->simd_operations += g->stats.simd_ops - began.simd_ops;
  }
  pthread_mutex_lock(&g->lock);
  g->running = 0;
  g->stop = 0;
  pthread_mutex_unlock(&g->lock);
  return g->failed;
}
