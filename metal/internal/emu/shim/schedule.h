// The scheduler of a threadgroup's fibres: choosing the next fibre, barriers, threadgroup memory,
// and errors.
#pragma once
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "fibre.h"
#include "switch.h"

namespace msl {

__thread Lane* current;

[[noreturn]] static void leave(Group* g) {
  g->failed = 1;
  void* never;
  msl_switch(&never, g->main_sp);
  __builtin_unreachable();
}

// fail ends the threadgroup and so the dispatch.
void fail(Group* g, const char* format, ...) {
  va_list a;
  va_start(a, format);
  vsnprintf(g->err, sizeof g->err, format, a);
  va_end(a);
  leave(g);
}

// fail_where fails with a text naming the threadgroup and the state of all its threads.
[[noreturn]] static void fail_where(Group* g, Lane* l, const char* what) {
  unsigned barrier = 0, simd = 0, done = 0;
  const Lane *at_barrier = nullptr, *at_simd = nullptr;
  for (uint32_t i = 0; i < g->n; i++) {
    const Lane* o = g->lanes[i];
    if (o->state == WAIT_BARRIER) barrier++, at_barrier = o;
    if (o->state == WAIT_SIMD) simd++, at_simd = o;
    if (o->state == DONE) done++;
  }
  char b[128] = "", s[160] = "";
  if (at_barrier) snprintf(b, sizeof b, " (%s:%d)", at_barrier->site.file, at_barrier->site.line);
  if (at_simd) snprintf(s, sizeof s, " (%s, %s:%d)", at_simd->simd->site.op, at_simd->simd->site.file, at_simd->simd->site.line);
  fail(g, "%s: thread %u of threadgroup (%u,%u,%u); of %u threads %u wait at a threadgroup_barrier%s, %u in a simdgroup operation%s, %u have returned", what, l->index,
       g->position[0], g->position[1], g->position[2], g->n, barrier, b, simd, s, done);
}

static Lane* next_runnable(Lane* l) {
  for (Lane* n = l->next_in_simd; n != l; n = n->next_in_simd)
    if (runnable(n)) return n;
  for (Lane* n = l->next; n != l; n = n->next)
    if (runnable(n)) return n;
  return nullptr;
}

void block_slow(Lane* l) {
  if (Lane* n = next_runnable(l)) return resume(l, n);
  if (!runnable(l)) fail_where(l->group, l, "deadlock: threads wait for each other at different operations");
  l->state = RUN;
}

void wrong_site(Simd* s, Site site) {
  Lane* l = current;
  Group* g = l->group;
  fail(g, "divergence: thread %u of threadgroup (%u,%u,%u) is at %s (%s:%d) while its simdgroup is at %s (%s:%d)", l->index, g->position[0], g->position[1], g->position[2], site.op,
       site.file, site.line, s->site.op, s->site.file, s->site.line);
}

void barrier(Site site) {
  Lane* l = current;
  Group* g = l->group;
  l->site = site;
  if (g->alive != g->n) fail_where(g, l, "a thread returned before a threadgroup_barrier that others reach");
  if (++g->arrived < g->n) {
    l->state = WAIT_BARRIER;
    l->epoch = g->epoch;
    block(l);
    return;
  }
  for (uint32_t i = 0; i < g->n; i++) {
    const Site& o = g->lanes[i]->site;
    if (!same(o, site))
      fail(g, "divergence: thread %u of threadgroup (%u,%u,%u) is at the threadgroup_barrier of %s:%d, thread %u at that of %s:%d", l->index, g->position[0], g->position[1],
           g->position[2], site.file, site.line, i, o.file, o.line);
  }
  g->arrived = 0;
  g->epoch++;
  g->stats.barriers++;
}

void* storage_slow(Group* g, const void* id, const char* name, size_t size, size_t align) {
  size_t room = (size + 15) & ~(size_t)15;
  if (g->memory_used + room > g->memory_limit)
    fail(g, "more than %u bytes of threadgroup memory: %s needs %zu, %u are in use", g->memory_limit, name, size, g->memory_used);
  if (g->nsites == MSL_SITES) fail(g, "more than %d threadgroup arrays in one kernel", MSL_SITES);
  size_t shift = align < 16 ? align : 0;
  unsigned char* at = g->memory + g->memory_top + shift;
  g->memory_used += room;
  g->memory_top += room + MSL_RED_ZONE + (shift ? 16 : 0);
  memset(at, g->poison ? 0xFF : 0, room);
  memset(at + room, 0xFF, MSL_RED_ZONE);
  g->sites[g->nsites++] = {id, name, at, (uint32_t)size};
  return at;
}

// memory_size is the size of a threadgroup's memory, including red zones.
static const size_t memory_size = MSL_MAX_MEMORY + MSL_SITES * 16 + (MSL_SITES + 2) * MSL_RED_ZONE;

// in_memory reports whether an address is in the threadgroup's memory.
static inline bool in_memory(const Group* g, uint64_t at) { return at - (uint64_t)g->memory < memory_size; }

// check_memory finds stores past the end of threadgroup arrays.
static const char* check_memory(Group* g) {
  for (uint32_t i = 0; i < g->nsites; i++) {
    auto& s = g->sites[i];
    uint32_t room = (s.size + 15) & ~15u;
    for (uint32_t b = room; b < room + MSL_RED_ZONE; b++)
      if (s.at[b] != 0xFF) {
        snprintf(g->err, sizeof g->err, "threadgroup (%u,%u,%u) wrote byte %u of threadgroup memory %s, which has %u", g->position[0], g->position[1], g->position[2], b, s.name, s.size);
        return g->err;
      }
  }
  return nullptr;
}

static const uint64_t stack_mark = 0x6d736c5f656e6421;  // lies at the deepest end of every stack

static unsigned char* stack_of(Group* g, uint32_t i) { return g->stacks + (size_t)i * MSL_STRIDE; }

static const char* deep(Group* g, uint32_t thread) {
  snprintf(g->err, sizeof g->err, "thread %u of threadgroup (%u,%u,%u) has more than %d bytes of local variables", thread, g->position[0], g->position[1], g->position[2], MSL_STACK);
  return g->err;
}

// check_stacks finds threads whose local variables overflowed their stacks.
static const char* check_stacks(Group* g) {
  for (uint32_t i = 0; i < g->n; i++) {
    uint64_t mark;
    memcpy(&mark, stack_of(g, i), sizeof mark);
    if (mark != stack_mark) return deep(g, i);
  }
  return nullptr;
}

static void lane_main() {
  Lane* l = current;
  Group* g = l->group;
  g->fn(g, l);
  l->state = DONE;
  g->alive--;
  if (g->arrived) fail_where(g, l, "a thread returned before a threadgroup_barrier that others reach");
  Simd* s = l->simd;
  s->active--;
  if (s->active && s->arrived == s->active) {  // the ended lane was the last that the others waited for
    unsigned p = s->epoch & 1;
    s->finish(s, p, s->mask[p]);
    s->arrived = 0;
    s->epoch++;
    g->stats.simd_ops++;
  }
  if (Lane* n = next_runnable(l)) resume(l, n);
  if (g->alive) fail_where(g, l, "deadlock: threads wait for each other at different operations");
  msl_switch(&l->sp, g->main_sp);
  __builtin_trap();
}

}  // namespace msl
