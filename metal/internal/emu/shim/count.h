// Counting a kernel's work. Libraries built for counting call these functions: for every load and
// store, and once per basic block for its arithmetic.
#pragma once
#include "schedule.h"

namespace msl {

// private_at reports whether an address is on a thread's stack or the emulator's own.
static inline bool private_at(const Group* g, uint64_t at) {
  const uint64_t stacks = MSL_STRIDE * (uint64_t)(MSL_MAX_THREADS + 1), simds = sizeof(Simd) * (MSL_MAX_THREADS / MSL_SIMD);
  const uint64_t words = 32 * sizeof(uint64_t);  // of the arguments
  if (at - (uint64_t)g->bufs < words || at - (uint64_t)g->lens < words) return true;
  return at - (uint64_t)g->stacks < stacks || at - (uint64_t)g->simds < simds || at - (uint64_t)g < sizeof(Group) || at - (uint64_t)&current < sizeof current;
}

// argument returns the counts of the buffer containing an address, null if there is none. If
// several arguments are parts of one buffer, it is the last one starting before the address.
static inline msl_counted* argument(msl_counts* c, uint64_t at) {
  msl_counted* found = nullptr;
  for (msl_counted* b = c->buffers; b != c->buffers + 31; b++)
    if (at - b->begin < b->size && (!found || b->begin > found->begin)) found = b;
  return found;
}

static inline void count_access(uint64_t at, uint64_t n, bool store) {
  Lane* l = current;
  msl_counts* c = l ? l->group->counts : nullptr;
  if (!c) return;
  Group* g = l->group;
  if (in_memory(g, at)) {
    (store ? c->memory_written : c->memory_read) += n;
    return;
  }
  if (private_at(g, at)) return;
  msl_counted* b = argument(c, at);
  if (!b) {  // a table of the program's
    c->tables += n;
    return;
  }
  if (store) {
    b->written += n;
    return;
  }
  b->loads += n;
  if (!b->seen) return;
  uint32_t turn = c->turn;
  for (uint64_t i = at - b->begin, end = i + n < b->size ? i + n : b->size; i < end; i++) {
    if (b->seen[i] == turn) continue;
    b->once += !b->seen[i];
    b->read++;
    b->seen[i] = turn;
  }
}

}  // namespace msl

extern "C" MSL_API void msl_count_load(void* p, uint64_t n) { msl::count_access((uint64_t)p, n, false); }
extern "C" MSL_API void msl_count_store(void* p, uint64_t n) { msl::count_access((uint64_t)p, n, true); }
extern "C" MSL_API void msl_count_operations(uint64_t n) {
  msl::Lane* l = msl::current;
  if (l && l->group->counts) l->group->counts->operations += n;
}
// n is the number of products of a matrix product, size the bytes of its operands' elements.
extern "C" MSL_API void msl_count_products(uint64_t n, uint64_t size) {
  msl::Lane* l = msl::current;
  if (l && l->group->counts) (size < 4 ? l->group->counts->products16 : l->group->counts->products32) += n;
}
// n is the number of products of a thread's part of a tensor operation.
extern "C" MSL_API void msl_count_tensors(uint64_t n) {
  msl::Lane* l = msl::current;
  if (l && l->group->counts) l->group->counts->products_tensor += n;
}
