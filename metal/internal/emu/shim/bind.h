// Binding of a kernel's parameters, and the definitions used by the tables.
#pragma once
#pragma clang system_header
#include "tiles.h"

namespace msl {
enum Source { BUFFER, MEMORY, IN_GRID, IN_GROUP, GROUP, INDEX, LANE, SIMDGROUP, SIZE, FULL_SIZE, GROUPS, GRID, WIDTH, SIMDGROUPS, ZERO };
template <Source K, int I = 0>
struct From {};

template <class P>
MSL_INLINE P three(const uint32_t* v) {
  using U = metal::remove_cv_t<P>;
  if constexpr (metal::msl_is_vec<U>) {
    U r;
    for (int i = 0; i < metal::msl_vt<U>::N; i++) r[i] = v[i];
    return r;
  } else {
    return (P)v[0];
  }
}

template <class P, Source K, int I>
MSL_INLINE P bind(Group* g, Lane* l, From<K, I>) {
  if constexpr (K == BUFFER) {
    if constexpr (__is_lvalue_reference(P))
      return *(metal::remove_reference_t<P>*)g->bufs[I];
    else
      return (P)g->bufs[I];
  } else if constexpr (K == MEMORY) {
    return (P)(g->memory + g->lens[I]);
  } else if constexpr (K == IN_GRID) {
    return three<P>(l->in_grid);
  } else if constexpr (K == IN_GROUP) {
    return three<P>(l->in_group);
  } else if constexpr (K == GROUP) {
    return three<P>(g->position);
  } else if constexpr (K == INDEX) {
    return (P)l->index;
  } else if constexpr (K == LANE) {
    return (P)l->lane;
  } else if constexpr (K == SIMDGROUP) {
    return (P)l->simdgroup;
  } else if constexpr (K == SIZE) {
    return three<P>(g->size);
  } else if constexpr (K == FULL_SIZE) {
    return three<P>(g->full);
  } else if constexpr (K == GROUPS) {
    return three<P>(g->groups);
  } else if constexpr (K == GRID) {
    return three<P>(g->grid);
  } else if constexpr (K == WIDTH) {
    return (P)MSL_SIMD;
  } else if constexpr (K == SIMDGROUPS) {
    return (P)g->simdgroups;
  } else {
    return P();
  }
}

template <class... P, class... K>
MSL_INLINE void call(void (*f)(P...), void* g, void* l, K... k) {
  static_assert(sizeof...(P) == sizeof...(K), "the pre-pass and the compiler do not agree on how many parameters a kernel has");
  f(bind<P>((Group*)g, (Lane*)l, k)...);
}
}  // namespace msl
