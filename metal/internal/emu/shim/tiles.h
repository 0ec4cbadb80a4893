// simdgroup_matrix: an 8x8 tile held by a simdgroup's 32 lanes together.
//
// There are two builds with the same results, bit for bit. In the distributed build every lane has two elements of one
// row, in the places used by Apple's GPUs, and all lanes meet for a product. In the leader build (MSL_LEADER) lane 0 has
// the whole tile and works alone, which is ten times as fast; the lanes meet only where a kernel uses thread_elements().
#pragma once
#pragma clang system_header
#include "simd.h"

namespace metal {
// The row and first column of the two elements of a lane.
MSL_INLINE int msl_tile_row(int lane) { return (lane >> 4 & 1) * 4 + (lane >> 1 & 3); }
MSL_INLINE int msl_tile_column(int lane) { return (lane >> 3 & 1) * 4 + (lane & 1) * 2; }

// msl_tile_product is d = a · b + c in f32: c first, then the products in order, each fused.
MSL_INLINE void msl_tile_product(float d[8][8], const float a[8][8], const float b[8][8], const float c[8][8]) {
  typedef float row __attribute__((ext_vector_type(8), aligned(4)));
  for (int i = 0; i < 8; i++) {
    row s = *(const row*)c[i];
    for (int k = 0; k < 8; k++) s = __builtin_elementwise_fma(row(a[i][k]), *(const row*)b[k], s);
    *(row*)d[i] = s;
  }
}

#ifdef MSL_LEADER
template <class T, int R, int C>
struct simdgroup_matrix {
  static_assert(R == 8 && C == 8, "a simdgroup_matrix is 8x8");
  using storage_type = vec<T, 2>;
  // The whole tile, valid in lane 0 unless spread is set.
  T m[8][8];
  // The two elements of each lane, if spread is set. All lanes spread and gather together, so they agree about the flag.
  vec<T, 2> e;
  bool spread;

  simdgroup_matrix() : spread(false) {}
  MSL_APART_MEMBER explicit simdgroup_matrix(T d) : spread(false) {
    for (int i = 0; i < 64; i++) m[i / 8][i % 8] = i / 8 == i % 8 ? d : T(0);
  }
  MSL_APART_MEMBER storage_type& thread_elements(MSL_AT) {
    if (spread) return e;
    spread = true;
    simdgroup_matrix* self = this;
    unsigned p = msl::meet(self, MSL_HERE("thread_elements"), msl_nothing);
    const simdgroup_matrix* o;
    __builtin_memcpy(&o, msl::current->simd->slot[p][0], sizeof o);
    int r = msl_tile_row(msl_lane()), c = msl_tile_column(msl_lane());
    __builtin_memcpy(&e, &o->m[r][c], 2 * sizeof(T));
    // Lane 0 may change m as soon as it goes on.
    msl::meet(0, MSL_HERE("thread_elements"), msl_nothing);
    return e;
  }
  MSL_MEMBER void gather(int line, const char* file) const {
    if (__builtin_expect(spread, 0)) gather_slow(line, file);
  }
  __attribute__((noinline)) void gather_slow(int line, const char* file) const {
    auto* self = const_cast<simdgroup_matrix*>(this);
    self->spread = false;
    struct Piece {
      simdgroup_matrix* to;
      vec<T, 2> e;
    } piece = {self, e};
    msl::meet(piece, MSL_HERE("simdgroup_matrix"), [](msl::Simd* s, unsigned p, uint32_t) {
      Piece q[MSL_SIMD];
      for (int i = 0; i < MSL_SIMD; i++) {
        __builtin_memcpy(&q[i], s->slot[p][i], sizeof(Piece));
        __builtin_memcpy(&q[0].to->m[msl_tile_row(i)][msl_tile_column(i)], &q[i].e, 2 * sizeof(T));
      }
    });
  }
};
template <class T, int R, int C = R>
MSL_APART simdgroup_matrix<T, R, C> make_filled_simdgroup_matrix(T v) {
  simdgroup_matrix<T, R, C> m;
  if (!msl_lane())
    for (int i = 0; i < 64; i++) m.m[i / 8][i % 8] = v;
  return m;
}
template <class T, class P>
MSL_APART void simdgroup_load(simdgroup_matrix<T, 8, 8>& m, const P* p, ulong ld = 8, ulong2 o = ulong2{0, 0}, bool transpose = false) {
  m.spread = false;
  if (msl_lane()) return;
  for (int r = 0; r < 8; r++)
    for (int c = 0; c < 8; c++) MSL_COUNT_LOAD(&p[transpose ? (o.y + c) * ld + o.x + r : (o.y + r) * ld + o.x + c], sizeof(P));
  for (int r = 0; r < 8; r++)
    for (int c = 0; c < 8; c++) m.m[r][c] = (T)p[transpose ? (o.y + c) * ld + o.x + r : (o.y + r) * ld + o.x + c];
}
template <class T, class P>
MSL_APART void simdgroup_store(const simdgroup_matrix<T, 8, 8>& m, P* p, ulong ld = 8, ulong2 o = ulong2{0, 0}, bool transpose = false, MSL_AT) {
  m.gather(line, file);
  if (msl_lane()) return;
  for (int r = 0; r < 8; r++)
    for (int c = 0; c < 8; c++) MSL_COUNT_STORE(&p[transpose ? (o.y + c) * ld + o.x + r : (o.y + r) * ld + o.x + c], sizeof(P));
  for (int r = 0; r < 8; r++)
    for (int c = 0; c < 8; c++) p[transpose ? (o.y + c) * ld + o.x + r : (o.y + r) * ld + o.x + c] = m.m[r][c];
}
template <class D, class A, class B, class X>
MSL_APART void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a, const simdgroup_matrix<B, 8, 8>& b, const simdgroup_matrix<X, 8, 8>& c,
                                              MSL_AT) {
  a.gather(line, file);
  b.gather(line, file);
  c.gather(line, file);
  d.spread = false;
  if (msl_lane()) return;
  MSL_COUNT_PRODUCTS(512, sizeof(A) > sizeof(B) ? sizeof(A) : sizeof(B));
  float fa[8][8], fb[8][8], fc[8][8], fd[8][8];
  for (int i = 0; i < 8; i++)
    for (int k = 0; k < 8; k++) fa[i][k] = (float)a.m[i][k], fb[i][k] = (float)b.m[i][k], fc[i][k] = (float)c.m[i][k];
  msl_tile_product(fd, fa, fb, fc);
  for (int i = 0; i < 8; i++)
    for (int k = 0; k < 8; k++) d.m[i][k] = (D)fd[i][k];
}
#else
template <class T, int R, int C>
struct simdgroup_matrix {
  static_assert(R == 8 && C == 8, "a simdgroup_matrix is 8x8");
  using storage_type = vec<T, 2>;
  vec<T, 2> e;

  simdgroup_matrix() { __builtin_memset(&e, 0xFF, sizeof e); }
  explicit simdgroup_matrix(T d) {
    int r = msl_tile_row(msl_lane()), c = msl_tile_column(msl_lane());
    e[0] = r == c ? d : T(0);
    e[1] = r == c + 1 ? d : T(0);
  }
  storage_type& thread_elements() { return e; }
};
template <class T, int R, int C = R>
MSL_APART simdgroup_matrix<T, R, C> make_filled_simdgroup_matrix(T v) {
  simdgroup_matrix<T, R, C> m;
  m.e = v;
  return m;
}
template <class T, class P>
MSL_APART void simdgroup_load(simdgroup_matrix<T, 8, 8>& m, const P* p, ulong ld = 8, ulong2 o = ulong2{0, 0}, bool transpose = false) {
  int r = msl_tile_row(msl_lane()), c = msl_tile_column(msl_lane());
  for (int k = 0; k < 2; k++) m.e[k] = (T)p[transpose ? (o.y + c + k) * ld + o.x + r : (o.y + r) * ld + o.x + c + k];
}
template <class T, class P>
MSL_APART void simdgroup_store(const simdgroup_matrix<T, 8, 8>& m, P* p, ulong ld = 8, ulong2 o = ulong2{0, 0}, bool transpose = false) {
  int r = msl_tile_row(msl_lane()), c = msl_tile_column(msl_lane());
  for (int k = 0; k < 2; k++) p[transpose ? (o.y + c + k) * ld + o.x + r : (o.y + r) * ld + o.x + c + k] = m.e[k];
}
template <class D, class A, class B, class X>
MSL_APART void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a, const simdgroup_matrix<B, 8, 8>& b, const simdgroup_matrix<X, 8, 8>& c,
                                              MSL_AT) {
  struct Piece {
    float a[2], b[2], c[2];
  } piece = {{(float)a.e[0], (float)a.e[1]}, {(float)b.e[0], (float)b.e[1]}, {(float)c.e[0], (float)c.e[1]}};
  unsigned p = msl::meet(piece, MSL_HERE("simdgroup_multiply_accumulate"), [](msl::Simd* s, unsigned p, uint32_t) {
    float fa[8][8], fb[8][8], fc[8][8];
    for (int i = 0; i < MSL_SIMD; i++) {
      Piece q;
      __builtin_memcpy(&q, s->slot[p][i], sizeof q);
      int r = msl_tile_row(i), c = msl_tile_column(i);
      for (int k = 0; k < 2; k++) fa[r][c + k] = q.a[k], fb[r][c + k] = q.b[k], fc[r][c + k] = q.c[k];
    }
    msl_tile_product((float(*)[8])s->res[p], fa, fb, fc);
  });
  const float(*o)[8] = (const float(*)[8])msl::current->simd->res[p];
  int r = msl_tile_row(msl_lane()), k = msl_tile_column(msl_lane());
  d.e[0] = (D)o[r][k];
  d.e[1] = (D)o[r][k + 1];
}
#endif

typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <class D, class A, class B>
MSL_INLINE void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a, const simdgroup_matrix<B, 8, 8>& b, MSL_AT) {
  simdgroup_matrix<D, 8, 8> zero = make_filled_simdgroup_matrix<D, 8, 8>(D(0));
  simdgroup_multiply_accumulate(d, a, b, zero, line, file);
}
}  // namespace metal
