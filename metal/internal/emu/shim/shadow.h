// Fences. For every read, this finds the thread that wrote the value, and checks for a barrier
// ordering that kind of memory between write and read. Libraries built for this check call these
// functions before every load and store. The check is needed because the fibres of a threadgroup
// share one thread of the system: a flag missing from a barrier changes no value here, but may
// change one on a GPU.
//
// Only reads after writes within a threadgroup are checked. Atomics are not.
#pragma once
#include <stdlib.h>
#include "schedule.h"

namespace msl {

// Cell describes 4 bytes: for each byte, the last thread that wrote it, counted from 1, and the
// number of fences that this thread had reached.
struct Cell {
  uint64_t at;
  uint32_t generation;
  uint16_t writer[4];
  uint32_t group_fences[4], simd_fences[4];
};

// Shadow is a hash table of the cells of the running threadgroup. Cells of another generation are
// empty.
struct Shadow {
  Cell* cells;
  uint64_t room, used;
  uint32_t generation;
};

static Cell* shadow_find(Cell* cells, uint64_t room, uint32_t generation, uint64_t at) {
  uint64_t i = at * 0x9E3779B97F4A7C15ull >> 20 & (room - 1);
  while (cells[i].generation == generation && cells[i].at != at) i = (i + 1) & (room - 1);
  return &cells[i];
}

static void shadow_grow(Group* g) {
  Shadow* s = g->shadow;
  uint64_t room = s->room ? 2 * s->room : 1 << 12;
  Cell* cells = (Cell*)calloc(room, sizeof(Cell));
  if (!cells) fail(g, "no memory to check fences");
  for (uint64_t i = 0; i < s->room; i++)
    if (s->cells[i].generation == s->generation) *shadow_find(cells, room, s->generation, s->cells[i].at) = s->cells[i];
  free(s->cells);
  s->cells = cells, s->room = room;
}

// shadow_begin forgets the previous threadgroup's writes.
static void shadow_begin(Group* g) {
  if (g->shadow) g->shadow->generation++, g->shadow->used = 0;
}

static void shadow_free(Group* g) {
  if (g->shadow) free(g->shadow->cells);
  free(g->shadow);
}

// shared reports whether an address is neither on a thread's stack nor the emulator's own.
static inline bool shared(const Group* g, uint64_t at) {
  const uint64_t stacks = MSL_STRIDE * (uint64_t)(MSL_MAX_THREADS + 1), simds = sizeof(Simd) * (MSL_MAX_THREADS / MSL_SIMD);
  return at - (uint64_t)g->stacks >= stacks && at - (uint64_t)g->simds >= simds && at - (uint64_t)g >= sizeof(Group) && at - (uint64_t)&current >= sizeof current;
}

static void shadow_store(uint64_t at, uint32_t n) {
  Lane* l = current;
  if (!l || !shared(l->group, at)) return;
  Group* g = l->group;
  if (!g->shadow) {
    g->shadow = (Shadow*)calloc(1, sizeof(Shadow));
    if (!g->shadow) fail(g, "no memory to check fences");
    g->shadow->generation = 1;
  }
  Shadow* s = g->shadow;
  int kind = in_memory(g, at);
  for (uint32_t i = 0; i < n; i++, at++) {
    if (2 * s->used >= s->room) shadow_grow(g);
    Cell* c = shadow_find(s->cells, s->room, s->generation, at >> 2);
    if (c->generation != s->generation) {
      s->used++;
      memset(c, 0, sizeof *c);
      c->at = at >> 2, c->generation = s->generation;
    }
    c->writer[at & 3] = (uint16_t)(l->index + 1);
    c->group_fences[at & 3] = l->group_fences[kind];
    c->simd_fences[at & 3] = l->simd_fences[kind];
  }
}

static void shadow_load(uint64_t at, uint32_t n) {
  Lane* l = current;
  if (!l || !l->group->shadow || !l->group->shadow->used || !shared(l->group, at)) return;
  Group* g = l->group;
  Shadow* s = g->shadow;
  int kind = in_memory(g, at);
  for (uint32_t i = 0; i < n; i++, at++) {
    Cell* c = shadow_find(s->cells, s->room, s->generation, at >> 2);
    if (c->generation != s->generation || !c->writer[at & 3]) continue;
    uint32_t writer = c->writer[at & 3] - 1u;
    if (writer == l->index || l->group_fences[kind] > c->group_fences[at & 3]) continue;
    if (writer / MSL_SIMD == l->simdgroup && l->simd_fences[kind] > c->simd_fences[at & 3]) continue;
    g->fault = msl_fault{at, MSL_UNFENCED, 2};
    fail(g, "thread %u of threadgroup (%u,%u,%u) reads what thread %u has written to %s memory, and no barrier with mem_flags::mem_%s that both reach lies between", l->index,
         g->position[0], g->position[1], g->position[2], writer, kind ? "threadgroup" : "device", kind ? "threadgroup" : "device");
  }
}

}  // namespace msl

#define MSL_ACCESS(n)                                                                              \
  extern "C" MSL_API void __sanitizer_cov_load##n(void* p) { msl::shadow_load((uint64_t)p, n); }   \
  extern "C" MSL_API void __sanitizer_cov_store##n(void* p) { msl::shadow_store((uint64_t)p, n); }
MSL_ACCESS(1)
MSL_ACCESS(2)
MSL_ACCESS(4)
MSL_ACCESS(8)
MSL_ACCESS(16)
