// Barriers, fences and atomics.
#pragma once
#pragma clang system_header
#include "fibre.h"
#include "maths.h"

// MSL_AT are the last parameters of an operation at which threads meet: the line of the calling
// kernel.
#define MSL_AT int line = __builtin_LINE(), const char *file = __builtin_FILE()
#define MSL_HERE(op) (msl::Site{file, op, line})

namespace metal {
enum class mem_flags : uint { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4, mem_threadgroup_imageblock = 8, mem_object_data = 16 };
MSL_INLINE constexpr mem_flags operator|(mem_flags a, mem_flags b) { return (mem_flags)((uint)a | (uint)b); }
enum memory_order { memory_order_relaxed, memory_order_acquire, memory_order_release, memory_order_acq_rel, memory_order_seq_cst };
enum thread_scope { thread_scope_thread, thread_scope_simdgroup, thread_scope_threadgroup, thread_scope_device };

MSL_APART void threadgroup_barrier(mem_flags f, MSL_AT) {
  msl::fence((uint)f, true);
  msl::barrier(MSL_HERE("threadgroup_barrier"));
}
MSL_APART void simdgroup_barrier(mem_flags f, MSL_AT) {
  msl::fence((uint)f, false);
  msl::meet(0, MSL_HERE("simdgroup_barrier"), [](msl::Simd*, unsigned, uint32_t) {});
}
MSL_INLINE void atomic_thread_fence(mem_flags, memory_order = memory_order_relaxed, thread_scope = thread_scope_device) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

template <class T> struct atomic { T v; };
template <class T> using _atomic = atomic<T>;
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<bool> atomic_bool;
typedef atomic<float> atomic_float;
typedef atomic<ulong> atomic_ulong;

// In libraries checking fences, atomics are unchecked functions of their own: an atomic sees the
// writes of other atomics without a fence.
#if defined(MSL_FENCES)
#define MSL_ATOMIC static __attribute__((noinline, no_sanitize("coverage")))
#elif defined(MSL_COUNT)
#define MSL_ATOMIC static __attribute__((noinline))
#else
#define MSL_ATOMIC MSL_INLINE
#endif

// Calls of libraries that count.
#ifdef MSL_COUNT
extern "C" MSL_API void msl_count_load(void*, uint64_t);
extern "C" MSL_API void msl_count_store(void*, uint64_t);
extern "C" MSL_API void msl_count_products(uint64_t, uint64_t);
extern "C" MSL_API void msl_count_tensors(uint64_t);
#define MSL_COUNT_LOAD(p, n) ::metal::msl_count_load((void*)(p), n)
#define MSL_COUNT_STORE(p, n) ::metal::msl_count_store((void*)(p), n)
#define MSL_COUNT_PRODUCTS(n, size) ::metal::msl_count_products(n, size)
#define MSL_COUNT_TENSORS(n) ::metal::msl_count_tensors(n)
#else
#define MSL_COUNT_LOAD(p, n) (void)0
#define MSL_COUNT_STORE(p, n) (void)0
#define MSL_COUNT_PRODUCTS(n, size) (void)0
#define MSL_COUNT_TENSORS(n) (void)0
#endif
#define MSL_COUNT_ATOMIC(p) (MSL_COUNT_LOAD(p, sizeof *(p)), MSL_COUNT_STORE(p, sizeof *(p)))

// MSL_ATOMICS defines the operations on atomics in one address space. All are sequentially
// consistent, which is stronger than Metal's relaxed order: the emulated GPU cannot show the
// effects of a weaker order between threadgroups.
#define MSL_RMW(S, name, expr)                                                                                                              \
  template <class T>                                                                                                                        \
  MSL_ATOMIC T atomic_fetch_##name##_explicit(volatile S atomic<T>* q, msl_same<T> x, memory_order) {                                       \
    volatile T* p = (volatile T*)&q->v;                                                                                                     \
    MSL_COUNT_ATOMIC(p);                                                                                                                    \
    T o, n;                                                                                                                                 \
    __atomic_load(p, &o, __ATOMIC_SEQ_CST);                                                                                                 \
    do {                                                                                                                                    \
      n = expr;                                                                                                                             \
    } while (!__atomic_compare_exchange(p, &o, &n, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));                                             \
    return o;                                                                                                                               \
  }
#define MSL_ATOMICS(S)                                                                                                                      \
  template <class T>                                                                                                                        \
  MSL_ATOMIC T atomic_load_explicit(const volatile S atomic<T>* p, memory_order) {                                                          \
    T r;                                                                                                                                    \
    MSL_COUNT_LOAD(p, sizeof(T));                                                                                                           \
    __atomic_load((const volatile T*)&p->v, &r, __ATOMIC_SEQ_CST);                                                                          \
    return r;                                                                                                                               \
  }                                                                                                                                         \
  template <class T>                                                                                                                        \
  MSL_ATOMIC void atomic_store_explicit(volatile S atomic<T>* p, msl_same<T> x, memory_order) {                                             \
    MSL_COUNT_STORE(p, sizeof(T));                                                                                                          \
    __atomic_store((volatile T*)&p->v, &x, __ATOMIC_SEQ_CST);                                                                               \
  }                                                                                                                                         \
  template <class T>                                                                                                                        \
  MSL_ATOMIC T atomic_exchange_explicit(volatile S atomic<T>* p, msl_same<T> x, memory_order) {                                             \
    T r;                                                                                                                                    \
    MSL_COUNT_ATOMIC(p);                                                                                                                    \
    __atomic_exchange((volatile T*)&p->v, &x, &r, __ATOMIC_SEQ_CST);                                                                        \
    return r;                                                                                                                               \
  }                                                                                                                                         \
  template <class T>                                                                                                                        \
  MSL_ATOMIC bool atomic_compare_exchange_weak_explicit(volatile S atomic<T>* p, T* expected, msl_same<T> x, memory_order, memory_order) {  \
    MSL_COUNT_ATOMIC(p);                                                                                                                    \
    return __atomic_compare_exchange((volatile T*)&p->v, expected, &x, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                          \
  }                                                                                                                                         \
  MSL_RMW(S, add, o + x)                                                                                                                    \
  MSL_RMW(S, sub, o - x)                                                                                                                    \
  MSL_RMW(S, min, o < x ? o : x)                                                                                                            \
  MSL_RMW(S, max, o > x ? o : x)                                                                                                            \
  MSL_RMW(S, and, o & x)                                                                                                                    \
  MSL_RMW(S, or, o | x)                                                                                                                     \
  MSL_RMW(S, xor, o ^ x)
#ifdef MSL_LINT
MSL_ATOMICS(__attribute__((address_space(1))))
MSL_ATOMICS(__attribute__((address_space(3))))
#else
MSL_ATOMICS()
#endif
}  // namespace metal
