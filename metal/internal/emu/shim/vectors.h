// Construction and conversion of vectors. The pass before the compiler rewrites float4(a, b) to
// msl_make<float4>(a, b), (half4)x to (half4)(msl_cast<half4>)x, and casts of pointers in the
// same way.
#pragma once
#pragma clang system_header
#include "traits.h"

#define MSL_MEMBER inline __attribute__((always_inline))

namespace metal {
template <class V, class A>
MSL_INLINE constexpr void msl_append(V& r, int& i, A a) {
  using E = msl_elem<V>;
  if constexpr (msl_is_vec<A>) {
    for (int k = 0; k < msl_vt<A>::N; k++) r[i++] = (E)a[k];
  } else {
    r[i++] = (E)a;
  }
}

template <class V, class A>
MSL_INLINE constexpr V msl_convert(A a) {
  using E = msl_elem<V>;
  if constexpr (msl_is_vec<A>) {
    static_assert(msl_vt<A>::N == msl_vt<V>::N, "a vector converts to one of as many components only");
    if constexpr (is_same_v<E, bool>) {
      V r = V(false);
      for (int k = 0; k < msl_vt<V>::N; k++) r[k] = a[k] != 0;
      return r;
    } else {
      return __builtin_convertvector(a, V);
    }
  } else if constexpr (__is_class(A)) {
    return (V)a;
  } else {
    return V(E(a));
  }
}

template <class V, class... A>
MSL_INLINE constexpr V msl_make(A... a) {
  using E = msl_elem<V>;
  if constexpr (!msl_is_vec<V>) {
    return V(a...);
  } else if constexpr (sizeof...(A) == 0) {
    return V(E(0));
  } else if constexpr (sizeof...(A) == 1) {
    return msl_convert<V>(a...);
  } else {
    static_assert((((msl_vt<A>::N ? msl_vt<A>::N : 1)) + ...) == msl_vt<V>::N, "wrong number of components");
    if constexpr ((!msl_is_vec<A> && ...)) {
      return V{E(a)...};
    } else {
      V r = V(E(0));
      int i = 0;
      (msl_append(r, i, a), ...);
      return r;
    }
  }
}
}  // namespace metal

using metal::msl_make;

template <class V>
struct msl_cast {
  V v;
  template <class A>
  MSL_MEMBER constexpr msl_cast(A a) : v(msl_make<V>(a)) {}
  MSL_MEMBER constexpr operator V() const { return v; }
};

// msl_space has the address space of a pointer's target. Address spaces are distinct under
// MSL_LINT only.
template <class T> struct msl_space { static constexpr int value = 0; };
#ifdef MSL_LINT
#define MSL_SPACE(n) \
  template <class T> struct msl_space<__attribute__((address_space(n))) T> { static constexpr int value = n; };
MSL_SPACE(1)
MSL_SPACE(2)
MSL_SPACE(3)
#endif

template <class P> struct msl_pointer;
template <class T>
struct msl_pointer<T*> {
  T* p;
  template <class U>
  MSL_MEMBER msl_pointer(U* q) : p((T*)q) {
    static_assert(msl_space<T>::value == msl_space<U>::value, "a cast must not change the address space of a pointer");
  }
  template <class U, class = metal::enable_if_t<__is_integral(U)>>
  MSL_MEMBER msl_pointer(U q) : p((T*)q) {}
  MSL_MEMBER operator T*() const { return p; }
};

template <class T, class U>
MSL_INLINE constexpr T as_type(U u) {
  static_assert(sizeof(T) == sizeof(U), "as_type needs types of one size");
  return __builtin_bit_cast(T, u);
}
namespace metal {
using ::as_type;
}
