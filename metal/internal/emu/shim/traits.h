// Type traits and numeric_limits.
#pragma once
#pragma clang system_header
#include "types.h"

namespace metal {
template <class T, T v>
struct integral_constant {
  static constexpr T value = v;
  using value_type = T;
  using type = integral_constant;
  constexpr operator T() const { return v; }
  constexpr T operator()() const { return v; }
};
template <bool B>
using bool_constant = integral_constant<bool, B>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;

template <class A, class B> struct is_same : false_type {};
template <class A> struct is_same<A, A> : true_type {};
template <class A, class B> constexpr bool is_same_v = is_same<A, B>::value;
template <bool B, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { using type = T; };
template <bool B, class T = void> using enable_if_t = typename enable_if<B, T>::type;
template <bool B, class X, class Y> struct conditional { using type = X; };
template <class X, class Y> struct conditional<false, X, Y> { using type = Y; };
template <bool B, class X, class Y> using conditional_t = typename conditional<B, X, Y>::type;
template <class T> struct remove_reference { using type = T; };
template <class T> struct remove_reference<T&> { using type = T; };
template <class T> struct remove_reference<T&&> { using type = T; };
template <class T> using remove_reference_t = typename remove_reference<T>::type;
template <class T> struct remove_cv { using type = __remove_cv(T); };
template <class T> using remove_cv_t = __remove_cv(T);
template <class T> struct remove_pointer { using type = T; };
template <class T> struct remove_pointer<T*> { using type = T; };
template <class T> using remove_pointer_t = typename remove_pointer<T>::type;
template <class...> using void_t = void;
template <class T> T&& declval();

// half and bfloat count as floating point, as in MSL.
#define MSL_TRAIT(name, test)                              \
  template <class T> struct name : bool_constant<test> {}; \
  template <class T> constexpr bool name##_v = test;
MSL_TRAIT(is_integral, __is_integral(T))
MSL_TRAIT(is_floating_point, __is_floating_point(T) || (is_same<remove_cv_t<T>, bfloat>::value))
MSL_TRAIT(is_arithmetic, __is_arithmetic(T) || (is_same<remove_cv_t<T>, bfloat>::value))
MSL_TRAIT(is_signed, __is_signed(T))
MSL_TRAIT(is_unsigned, __is_unsigned(T))
MSL_TRAIT(is_pointer, __is_pointer(T))
MSL_TRAIT(is_class, __is_class(T))
MSL_TRAIT(is_empty, __is_empty(T))
MSL_TRAIT(is_enum, __is_enum(T))
template <class A, class B> struct is_convertible : bool_constant<__is_convertible(A, B)> {};
template <class A, class B> constexpr bool is_convertible_v = __is_convertible(A, B);

template <class... B> struct disjunction : false_type {};
template <class B, class... R> struct disjunction<B, R...> : bool_constant<B::value || disjunction<R...>::value> {};
template <class... B> constexpr bool disjunction_v = disjunction<B...>::value;
template <class... B> struct conjunction : true_type {};
template <class B, class... R> struct conjunction<B, R...> : bool_constant<B::value && conjunction<R...>::value> {};
template <class... B> constexpr bool conjunction_v = conjunction<B...>::value;

// msl_vt has the element type and the width of a vector type; the width is 0 for other types.
template <class T> struct msl_vt { using E = T; static constexpr int N = 0; };
template <class T, int M> struct msl_vt<T __attribute__((ext_vector_type(M)))> { using E = T; static constexpr int N = M; };
template <class T> using msl_elem = typename msl_vt<T>::E;
template <class T> constexpr bool msl_is_vec = msl_vt<T>::N > 0;
template <class V> using msl_if_vec = enable_if_t<(msl_vt<V>::N > 0)>;
template <class I> using msl_if_int = enable_if_t<__is_integral(I)>;
template <class A> struct msl_id { using type = A; };
template <class A> using msl_same = typename msl_id<A>::type;  // a parameter of this type deduces nothing
template <class T> struct is_vector : bool_constant<(msl_vt<T>::N > 0)> {};

template <class T>
struct numeric_limits {
  static constexpr bool is_signed = __is_signed(T);
  static constexpr int digits = sizeof(T) * 8 - __is_signed(T);
  static constexpr T max() { return __is_signed(T) ? (T)((((T)1 << (sizeof(T) * 8 - 2)) - 1) * 2 + 1) : (T) ~(T)0; }
  static constexpr T min() { return __is_signed(T) ? (T)(-max() - 1) : (T)0; }
  static constexpr T lowest() { return min(); }
};
template <>
struct numeric_limits<bool> {
  static constexpr bool is_signed = false;
  static constexpr int digits = 1;
  static constexpr bool max() { return true; }
  static constexpr bool min() { return false; }
  static constexpr bool lowest() { return false; }
};
#define MSL_LIMITS(T, MAX, MIN, EPS, DIGITS)                              \
  template <>                                                             \
  struct numeric_limits<T> {                                              \
    static constexpr bool is_signed = true;                               \
    static constexpr int digits = DIGITS;                                 \
    static constexpr T max() { return (T)MAX; }                           \
    static constexpr T min() { return (T)MIN; }                           \
    static constexpr T lowest() { return (T)-MAX; }                       \
    static constexpr T epsilon() { return (T)EPS; }                       \
    static constexpr T infinity() { return (T)__builtin_inff(); }         \
    static constexpr T quiet_NaN() { return (T)__builtin_nanf(""); }      \
  };
MSL_LIMITS(float, __FLT_MAX__, __FLT_MIN__, __FLT_EPSILON__, 24)
MSL_LIMITS(half, 65504.0f, 6.103515625e-05f, 0.0009765625f, 11)
MSL_LIMITS(bfloat, 3.3895313892515355e38f, __FLT_MIN__, 0.0078125f, 8)
}  // namespace metal
