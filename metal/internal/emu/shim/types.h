// Scalar and vector types of the Metal Shading Language, and its constants.
#pragma once
#pragma clang system_header
#include <stddef.h>
#include <stdint.h>

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef _Float16 half;
typedef __bf16 bfloat;

namespace metal {
template <class T, int N>
using vec = T __attribute__((ext_vector_type(N)));
}

// packed_float3 and the like: elements without padding, aligned as one.
#define MSL_PACKED(T, N, ...)                                    \
  struct packed_##T##N {                                         \
    T e[N];                                                      \
    packed_##T##N() = default;                                   \
    packed_##T##N(T##N v) : e{__VA_ARGS__} {}                    \
    operator T##N() const {                                      \
      T##N r;                                                    \
      for (int i = 0; i < N; i++) r[i] = e[i];                   \
      return r;                                                  \
    }                                                            \
    T& operator[](int i) { return e[i]; }                        \
    const T& operator[](int i) const { return e[i]; }            \
  };
#define MSL_VECTORS(T)            \
  typedef metal::vec<T, 2> T##2;  \
  typedef metal::vec<T, 3> T##3;  \
  typedef metal::vec<T, 4> T##4;
#define MSL_PACKS(T)                     \
  MSL_PACKED(T, 2, v.x, v.y)             \
  MSL_PACKED(T, 3, v.x, v.y, v.z)        \
  MSL_PACKED(T, 4, v.x, v.y, v.z, v.w)
#define MSL_EACH(M) M(char) M(uchar) M(short) M(ushort) M(int) M(uint) M(long) M(ulong) M(half) M(bfloat) M(float)
MSL_EACH(MSL_VECTORS)
MSL_VECTORS(bool)
MSL_EACH(MSL_PACKS)

namespace metal {
using ::half;
using ::bfloat;
using ::uchar;
using ::ushort;
using ::uint;
using ::ulong;
using ::int8_t;
using ::uint8_t;
using ::int16_t;
using ::uint16_t;
using ::int32_t;
using ::uint32_t;
using ::int64_t;
using ::uint64_t;
using ::size_t;
#define MSL_USING(T) using ::T##2; using ::T##3; using ::T##4;
MSL_EACH(MSL_USING)
MSL_USING(bool)
}  // namespace metal

constexpr half operator""h(long double v) { return (half)v; }
constexpr half operator""h(unsigned long long v) { return (half)v; }
constexpr half operator""H(long double v) { return (half)v; }
constexpr bfloat operator""bf(long double v) { return (bfloat)(float)v; }
constexpr bfloat operator""BF(long double v) { return (bfloat)(float)v; }

#define METAL_FUNC inline __attribute__((always_inline))
#define MSL_INLINE static inline __attribute__((always_inline))

#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define HUGE_VALF __builtin_inff()
#define FLT_MAX __FLT_MAX__
#define FLT_MIN __FLT_MIN__
#define FLT_EPSILON __FLT_EPSILON__
#define MAXFLOAT __FLT_MAX__
#define HALF_MAX ((half)65504.0f)
#define HALF_MIN ((half)6.103515625e-05f)
#define HALF_EPSILON ((half)0.0009765625f)
#define MAXHALF HALF_MAX
#define M_PI_F 3.14159265358979323846f
#define M_PI_2_F 1.57079632679489661923f
#define M_1_PI_F 0.318309886183790671538f
#define M_2_PI_F 0.636619772367581343076f
#define M_E_F 2.71828182845904523536f
#define M_LN2_F 0.693147180559945309417f
#define M_LN10_F 2.302585092994045684f
#define M_LOG2E_F 1.44269504088896340736f
#define M_LOG10E_F 0.434294481903251827651f
#define M_SQRT2_F 1.41421356237309504880f
#define M_SQRT1_2_F 0.70710678118654752440f
#define M_2_SQRTPI_F 1.12837916709551257390f
#define CHAR_BIT 8
#define CHAR_MAX 127
#define CHAR_MIN (-128)
#define UCHAR_MAX 255
#define SHRT_MAX 32767
#define SHRT_MIN (-32768)
#define USHRT_MAX 65535
#define INT_MAX __INT_MAX__
#define INT_MIN (-__INT_MAX__ - 1)
#define UINT_MAX (__INT_MAX__ * 2u + 1u)
#define LONG_MAX __LONG_MAX__
#define LONG_MIN (-__LONG_MAX__ - 1)
#define ULONG_MAX (__LONG_MAX__ * 2ul + 1ul)
