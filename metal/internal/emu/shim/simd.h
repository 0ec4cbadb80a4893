// Operations of a simdgroup: 32 lanes meet, and all see the same result. Sums and products start
// with the lowest lane, so that the order of fibres changes no bit. A GPU adds in another order, so
// tests allow a tolerance. A value read from a lane that does not take part has all bits set: NaN
// or -1.
#pragma once
#pragma clang system_header
#include "sync.h"

namespace metal {
MSL_INLINE int msl_lane() { return (int)msl::current->lane; }

MSL_INLINE void msl_nothing(msl::Simd*, unsigned, uint32_t) {}

template <class T>
MSL_INLINE T msl_result(unsigned p) {
  T r;
  __builtin_memcpy(&r, msl::current->simd->res[p], sizeof r);
  return r;
}

template <class T>
MSL_INLINE T msl_from(unsigned p, int lane, T otherwise) {
  const msl::Simd* s = msl::current->simd;
  if (lane < 0 || lane >= MSL_SIMD) return otherwise;
  T r;
  if (s->mask[p] >> lane & 1)
    __builtin_memcpy(&r, s->slot[p][lane], sizeof r);
  else
    __builtin_memset(&r, 0xFF, sizeof r);
  return r;
}

#define MSL_REDUCE(name, expr)                                                              \
  template <class T>                                                                        \
  MSL_APART T name(T v, MSL_AT) {                                                          \
    unsigned p = msl::meet(v, MSL_HERE(#name), [](msl::Simd* s, unsigned p, uint32_t mask) { \
      T acc;                                                                                \
      bool first = true;                                                                    \
      for (int i = 0; i < MSL_SIMD; i++) {                                                  \
        if (!(mask >> i & 1)) continue;                                                     \
        T x;                                                                                \
        __builtin_memcpy(&x, s->slot[p][i], sizeof x);                                      \
        acc = first ? x : (T)(expr);                                                        \
        first = false;                                                                      \
      }                                                                                     \
      __builtin_memcpy(s->res[p], &acc, sizeof acc);                                        \
    });                                                                                     \
    return msl_result<T>(p);                                                                \
  }
MSL_REDUCE(simd_sum, acc + x)
MSL_REDUCE(simd_product, acc* x)
MSL_REDUCE(simd_max, max(acc, x))
MSL_REDUCE(simd_min, min(acc, x))
MSL_REDUCE(simd_and, acc& x)
MSL_REDUCE(simd_or, acc | x)
MSL_REDUCE(simd_xor, acc ^ x)

#define MSL_SHUFFLE(name, params, lane, otherwise)                                             \
  template <class T>                                                                           \
  MSL_APART T name params {                                                                    \
    unsigned p = msl::meet(v, MSL_HERE(#name), msl_nothing);                                   \
    return msl_from(p, lane, otherwise);                                                       \
  }
MSL_SHUFFLE(simd_shuffle, (T v, ushort n, MSL_AT), n, v)
MSL_SHUFFLE(simd_broadcast, (T v, ushort n, MSL_AT), n, v)
MSL_SHUFFLE(simd_broadcast_first, (T v, MSL_AT), __builtin_ctz(msl::current->simd->mask[p]), v)
MSL_SHUFFLE(simd_shuffle_xor, (T v, ushort m, MSL_AT), msl_lane() ^ m, v)
MSL_SHUFFLE(simd_shuffle_up, (T v, ushort d, MSL_AT), msl_lane() - d, v)
MSL_SHUFFLE(simd_shuffle_down, (T v, ushort d, MSL_AT), msl_lane() + d, v)
MSL_SHUFFLE(simd_shuffle_and_fill_up, (T v, T fill, ushort d, MSL_AT), msl_lane() - d, fill)
MSL_SHUFFLE(simd_shuffle_and_fill_down, (T v, T fill, ushort d, MSL_AT), msl_lane() + d, fill)
MSL_SHUFFLE(simd_shuffle_rotate_up, (T v, ushort d, MSL_AT), (msl_lane() - d) & 31, v)
MSL_SHUFFLE(simd_shuffle_rotate_down, (T v, ushort d, MSL_AT), (msl_lane() + d) & 31, v)
MSL_SHUFFLE(quad_shuffle, (T v, ushort n, MSL_AT), (msl_lane() & ~3) + (n & 3), v)
MSL_SHUFFLE(quad_broadcast, (T v, ushort n, MSL_AT), (msl_lane() & ~3) + (n & 3), v)
MSL_SHUFFLE(quad_shuffle_xor, (T v, ushort m, MSL_AT), msl_lane() ^ (m & 3), v)

#define MSL_SCAN(name, limit, start, expr)                                         \
  template <class T>                                                               \
  MSL_APART T name(T v, MSL_AT) {                                                 \
    unsigned p = msl::meet(v, MSL_HERE(#name), msl_nothing);                       \
    const msl::Simd* s = msl::current->simd;                                       \
    T acc = (T)start;                                                              \
    for (int i = 0; i < limit; i++) {                                              \
      if (!(s->mask[p] >> i & 1)) continue;                                        \
      T x;                                                                         \
      __builtin_memcpy(&x, s->slot[p][i], sizeof x);                               \
      acc = (T)(expr);                                                             \
    }                                                                              \
    return acc;                                                                    \
  }
MSL_SCAN(simd_prefix_inclusive_sum, msl_lane() + 1, 0, acc + x)
MSL_SCAN(simd_prefix_exclusive_sum, msl_lane(), 0, acc + x)
MSL_SCAN(simd_prefix_inclusive_product, msl_lane() + 1, 1, acc* x)
MSL_SCAN(simd_prefix_exclusive_product, msl_lane(), 1, acc* x)

// simd_vote has a bit for each lane.
struct simd_vote {
  using vote_t = ulong;
  ulong v;
  explicit simd_vote(ulong x) : v(x) {}
  explicit operator ulong() const { return v; }
  explicit operator uint() const { return (uint)v; }
  bool all() const { return v == 0xffffffffu; }
  bool any() const { return v != 0; }
};
#define MSL_VOTE(name, R, result)                                                               \
  MSL_APART R name(MSL_VOTE_PARAM MSL_AT) {                                                    \
    unsigned p = msl::meet((uint)b, MSL_HERE(#name), [](msl::Simd* s, unsigned p, uint32_t mask) { \
      uint r[2] = {0, mask};                                                                    \
      for (int i = 0; i < MSL_SIMD; i++)                                                        \
        if ((mask >> i & 1) && s->slot[p][i][0]) r[0] |= 1u << i;                               \
      __builtin_memcpy(s->res[p], r, sizeof r);                                                 \
    });                                                                                         \
    uint yes, mask;                                                                             \
    __builtin_memcpy(&yes, msl::current->simd->res[p], 4);                                      \
    __builtin_memcpy(&mask, msl::current->simd->res[p] + 4, 4);                                 \
    (void)mask;                                                                                 \
    return result;                                                                              \
  }
#define MSL_VOTE_PARAM bool b,
MSL_VOTE(simd_ballot, simd_vote, simd_vote(yes))
MSL_VOTE(simd_all, bool, yes == mask)
MSL_VOTE(simd_any, bool, yes != 0)
#undef MSL_VOTE_PARAM
MSL_INLINE simd_vote simd_active_threads_mask(MSL_AT) { return simd_ballot(true, line, file); }
MSL_INLINE bool simd_is_first(MSL_AT) { return msl_lane() == __builtin_ctz((uint)simd_ballot(true, line, file)); }
template <class T> MSL_INLINE T quad_sum(T v, MSL_AT) {
  v = (T)(v + quad_shuffle_xor(v, 1, line, file));
  return (T)(v + quad_shuffle_xor(v, 2, line, file));
}
template <class T> MSL_INLINE T quad_max(T v, MSL_AT) {
  v = max(v, quad_shuffle_xor(v, 1, line, file));
  return max(v, quad_shuffle_xor(v, 2, line, file));
}
}  // namespace metal
