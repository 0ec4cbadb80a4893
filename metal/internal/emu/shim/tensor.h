// Metal 4's tensors over memory, and their product, computed by a threadgroup's simdgroups together, as
// far as kernels use them. On a GPU it is unspecified which elements of a product a thread holds, in
// which order, and how large its capacity is. Here each thread has an order of its own, with gaps, and
// using a gap is an error.
#pragma once
#pragma clang system_header
#include "simd.h"

namespace metal {
template <class T, size_t N>
struct array {
  T e[N];
  constexpr T operator[](size_t i) const { return e[i]; }
};
struct tensor_inline {};
template <int N> struct execution_simdgroups { static constexpr int simdgroups = N; };

// The sizes of a tensor's dimensions, the first varying fastest.
template <class I, size_t R>
struct dextents;
template <class I>
struct dextents<I, 2> {
  I width, height;
  constexpr dextents(I w, I h) : width(w), height(h) {}
};

template <class T, class E, class Kind>
struct tensor;
template <class T, class I>
struct tensor<T, dextents<I, 2>, tensor_inline> {
  T* data;
  dextents<I, 2> size;
  I across, down;  // elements from one to the next
  tensor(T* p, dextents<I, 2> e) : data(p), size(e), across(1), down(e.width) {}
  tensor(T* p, dextents<I, 2> e, array<I, 2> strides) : data(p), size(e), across(strides[0]), down(strides[1]) {}
  bool has(int x, int y) const { return x < size.width && y < size.height; }
  T* at(int x, int y) const { return data + x * across + y * down; }
};
}  // namespace metal

namespace mpp {
namespace tensor_ops {
struct matmul2d_descriptor {
  enum class mode { multiply, multiply_accumulate };
  int m, n, k;
  bool transpose_left, transpose_right, relaxed_precision;
  mode how;
  constexpr matmul2d_descriptor(int m, int n, int k, bool left = false, bool right = false, bool relaxed = false, mode how = mode::multiply)
      : m(m), n(n), k(k), transpose_left(left), transpose_right(right), relaxed_precision(relaxed), how(how) {}
};

// cooperative_product is a thread's elements of an M by N product. Every fifth element of its capacity is
// a gap, starting at a different one in each thread.
template <class T, int M, int N, int SIMDGROUPS>
struct cooperative_product {
  static constexpr int threads = 32 * SIMDGROUPS, most = (M * N + threads - 1) / threads, room = most + most / 4 + 2;
  T e[room];
  MSL_APART_MEMBER cooperative_product() { __builtin_memset(e, 0xFF, sizeof e); }
  ushort get_capacity() const { return room; }
  MSL_APART_MEMBER bool is_valid_element(ushort i) const { return i < room && place(i) >= 0; }
  MSL_APART_MEMBER T& operator[](ushort i) {
    check(i);
    return e[i];
  }
  MSL_APART_MEMBER metal::array<int, 2> get_multidimensional_index(ushort i) const {
    check(i);
    return {place(i) % N, place(i) / N};
  }
  // place returns the index of element i in the product, in row-major order, -1 for a gap.
  static int place(int i) {
    const int thread = (int)msl::current->index, gap = thread % 5;
    const int own = i - (i + 4 - gap) / 5;  // without the gaps before it
    if (i % 5 == gap || own >= most) return -1;
    const int at = (most - 1 - own + thread) % most * threads + (thread * 37 + 11) % threads;
    return at < M * N ? at : -1;
  }

 private:
  void check(int i) const {
    if (i >= room || place(i) < 0)
      msl::fail(msl::current->group, "element %d of a cooperative tensor is none of thread %u's: ask is_valid_element", i, msl::current->index);
  }
};

template <matmul2d_descriptor D, class Scope>
struct matmul2d {
  template <class L, class R, class T>
  cooperative_product<T, D.m, D.n, Scope::simdgroups> get_destination_cooperative_tensor() const { return {}; }

  // All threads of the scope's simdgroups call this. Their previous writes are visible if separated by a
  // barrier.
  template <class L, class R, class C>
  // An operand's elements are counted as read once each, a lower bound on the threads' reads together.
  MSL_APART_MEMBER void run(L& a, R& b, C& c, MSL_AT) const {
    msl::meet(0, MSL_HERE("matmul2d::run"), metal::msl_nothing);
    if (msl::current->index == 0) {
      for (int y = 0; y < a.size.height; y++) MSL_COUNT_LOAD(a.at(0, y), a.size.width * sizeof *a.data);
      for (int y = 0; y < b.size.height; y++) MSL_COUNT_LOAD(b.at(0, y), b.size.width * sizeof *b.data);
    }
    for (int i = 0; i < C::room; i++) {
      const int at = C::place(i);
      if (at < 0) continue;
      MSL_COUNT_TENSORS(D.k);
      const int row = at / D.n, column = at % D.n;
      float s = D.how == matmul2d_descriptor::mode::multiply ? 0.0f : c.e[i];
      for (int k = 0; k < D.k; k++) {
        const int ax = D.transpose_left ? row : k, ay = D.transpose_left ? k : row;
        const int bx = D.transpose_right ? k : column, by = D.transpose_right ? column : k;
        if (a.has(ax, ay) && b.has(bx, by)) s = __builtin_fmaf((float)*a.at(ax, ay), (float)*b.at(bx, by), s);
      }
      c.e[i] = s;
    }
  }
};
}  // namespace tensor_ops
}  // namespace mpp
