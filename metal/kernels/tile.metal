// One tile of a product C[i,j] = Σ A[i,k]·B[k,j]: the engine of all matrix products.
//
// A threadgroup of four simdgroups loads blocks of A and B, BK deep, into threadgroup memory and multiplies them in
// matrices of 8 by 8. An operand is a number of lines, A's rows or B's columns, as deep as the sum is long; strides
// locate its elements. Past its edges it is padded with zeros without reading memory, so that the contents there,
// including NaNs, enter no product.
//
// Every element is summed in f32, from k = 0 on, 8 products at a time, in tiles of every size. So its bits depend
// neither on the tile, nor on its position in it, nor on the other elements.
//
// 16-bit operands stay 16-bit in threadgroup memory. Tiles for many rows then read 0.125 bytes of it per product:
// for two such operands, and, in a tile with twice as many columns, if only A is 16-bit and B's elements are f32,
// as when decoded from blocks. With two operands in f32 they read 0.25, and if B's elements are decoded or widened,
// in the wide tile, 0.1875. Bits are the same.
//
// A simdgroup's matrices are written from registers: a thread has two adjacent elements of a row, and writes these.
#include "matrix_places.metal"
#include "operands.metal"
#include <metal_simdgroup_matrix>

#define TILE_THREADS 128
#define TILE_PAD 4 // elements after each row of a block, so that columns fall into different banks

// The tiles: for many rows, the same with B in f32, for few rows, and for tensor operations: BM, BN, BK and SM of
// tile. For tensor operations there is one for each layout of A and B: n for contiguous rows, A's along the sum and
// B's across it, and t for contiguous columns.
#define TILE_MANY 64, 64, 16, 2
#define TILE_WIDE 64, 128, 16, 1
#define TILE_FEW 16, 64, 32, 1
#define TILE_NN 64, 64, 32, 0
#define TILE_NT 64, 64, 32, -1
#define TILE_TN 64, 64, 32, -2
#define TILE_TT 64, 64, 32, -3

// TILE_FUNCTIONS_F32, _16, _MIXED and _DECODED make functions of a kernel, a template of the parameters of tile:
// with blocks in f32, in 16 bits, and with A in either and B in f32 whatever its elements are in memory; the last
// has no function for elements that are f32 there. Names give the tile's number of rows, and the type of blocks:
// A's, and B's if it differs.
#define TILE_FUNCTION(f, name, ...) template [[host_name(#f "_" name)]] [[kernel]] decltype(f<__VA_ARGS__>) f<__VA_ARGS__>;
#define TILE_FUNCTIONS_F32(f)                                     \
  TILE_FUNCTION(f, "many_f32", float, float, TILE_MANY)           \
  TILE_FUNCTION(f, "few_f32", float, float, TILE_FEW)
#define TILE_FUNCTIONS_16(f)                                      \
  TILE_FUNCTION(f, "many_f16", half, half, TILE_MANY)             \
  TILE_FUNCTION(f, "many_bf16", bfloat, bfloat, TILE_MANY)        \
  TILE_FUNCTION(f, "few_f16", half, half, TILE_FEW)               \
  TILE_FUNCTION(f, "few_bf16", bfloat, bfloat, TILE_FEW)          \
  TENSOR_FUNCTIONS(f)
#define TILE_FUNCTIONS_DECODED(f)                                 \
  TILE_FUNCTION(f, "few_f32", float, float, TILE_FEW)             \
  TILE_FUNCTIONS_MIXED(f)
#define TILE_FUNCTIONS_MIXED(f)                                   \
  TILE_FUNCTION(f, "many_f32_f32", float, float, TILE_WIDE)       \
  TILE_FUNCTION(f, "many_f16_f32", half, float, TILE_WIDE)        \
  TILE_FUNCTION(f, "many_bf16_f32", bfloat, float, TILE_WIDE)     \
  TILE_FUNCTION(f, "few_f16_f32", half, float, TILE_FEW)          \
  TILE_FUNCTION(f, "few_bf16_f32", bfloat, float, TILE_FEW)
#ifdef TENSOR_OPS
#define TENSOR_FUNCTIONS(f)                                       \
  TENSOR_LAYOUTS(f, "tensor_f16", half)                           \
  TENSOR_LAYOUTS(f, "tensor_bf16", bfloat)
#define TENSOR_LAYOUTS(f, name, S)                                \
  TILE_FUNCTION(f, name "_nn", S, S, TILE_NN)                     \
  TILE_FUNCTION(f, name "_nt", S, S, TILE_NT)                     \
  TILE_FUNCTION(f, name "_tn", S, S, TILE_TN)                     \
  TILE_FUNCTION(f, name "_tt", S, S, TILE_TT)
#else
#define TENSOR_FUNCTIONS(f)
#endif

static inline void put_four(threadgroup float* to, float4 v) { *(threadgroup float4*)to = v; }
static inline void put_four(threadgroup half* to, float4 v) { *(threadgroup half4*)to = half4(v); }
static inline void put_four(threadgroup bfloat* to, float4 v) { *(threadgroup bfloat4*)to = bfloat4(v); }

// staged returns 4 elements, with stride `next`, of which `left` remain.
static inline float4 staged(device const uchar* x, int as, bool fours, uint at, uint next, int left) {
  float4 v = float4(0.0f);
  if (fours && left >= 4) {
    v = numbers(x, as, at);
  } else {
    if (left > 0) v.x = number(x, as, at);
    if (left > 1) v.y = number(x, as, at + next);
    if (left > 2) v.z = number(x, as, at + 2 * next);
    if (left > 3) v.w = number(x, as, at + 3 * next);
  }
  return v;
}

// stage loads a block of LINES lines, DEEP deep, to threadgroup memory: if across, its rows are along the lines,
// otherwise along the depth. lines and deep are the remaining sizes of the operand.
template <typename S, int LINES, int DEEP>
static inline void stage(threadgroup S* to, device const uchar* x, int as, bool across, bool fours,
                         uint start, uint line_stride, uint deep_stride, int lines, int deep, uint thread_index) {
  for (int q = int(thread_index); q < LINES * DEEP / 4; q += TILE_THREADS) {
    const int line = across ? q % (LINES / 4) * 4 : q / (DEEP / 4);
    const int k = across ? q / (LINES / 4) : q % (DEEP / 4) * 4;
    const int left = across ? (k < deep ? lines - line : 0) : (line < lines ? deep - k : 0);
    const uint at = start + uint(line) * line_stride + uint(k) * deep_stride;
    const float4 v = staged(x, as, fours, at, across ? line_stride : deep_stride, left);
    put_four(to + (across ? k * (LINES + TILE_PAD) + line : line * (DEEP + TILE_PAD) + k), v);
  }
}

// stage_matrix is stage for lines from `first` on, and from depth `from` on, of a decoded matrix: at(row, column)
// returns its elements. Its columns are contiguous. If across, they are the lines, otherwise they lie along the
// depth.
template <typename S, int LINES, int DEEP, typename M>
static inline void stage_matrix(threadgroup S* to, thread const M& m, int first, int from, int lines, int deep, uint thread_index) {
  for (int q = int(thread_index); q < LINES * DEEP / 4; q += TILE_THREADS) {
    const int line = b_across ? q % (LINES / 4) * 4 : q / (DEEP / 4);
    const int k = b_across ? q / (LINES / 4) : q % (DEEP / 4) * 4;
    const int left = b_across ? (k < deep ? lines - line : 0) : (line < lines ? deep - k : 0);
    const int row = b_across ? from + k : first + line;
    const int column = b_across ? first + line : from + k;
    float4 v = float4(0.0f);
    if (left > 0) v.x = m.at(row, column);
    if (left > 1) v.y = m.at(row, column + 1);
    if (left > 2) v.z = m.at(row, column + 2);
    if (left > 3) v.w = m.at(row, column + 3);
    put_four(to + (b_across ? k * (LINES + TILE_PAD) + line : line * (DEEP + TILE_PAD) + k), v);
  }
}

// block_size returns the number of elements that stage needs for a block.
static constexpr int block_size(int lines, int deep) {
  return lines * deep + TILE_PAD * (lines > deep ? lines : deep);
}

// tile_fours returns the threadgroup memory of a tile's two blocks, in fours of floats. A's are whole fours. If SM
// is at most 0 the tile's sums, in f32, reuse the memory of the blocks.
static constexpr int tile_fours(int a_size, int b_size, int bm, int bn, int bk, int sm) {
  return sm <= 0 && bm * bn > (block_size(bm, bk) * a_size + block_size(bn, bk) * b_size + 3) / 4 ? bm * bn / 4
         : (block_size(bm, bk) * a_size + block_size(bn, bk) * b_size + 15) / 16;
}

// tile is BM by BN elements of C, summed from blocks of A, in S, and of B, in T, each BK deep. The four simdgroups
// are SM by 4/SM.
template <typename S, typename T, int BM, int BN, int BK, int SM>
struct tile {
  simdgroup_float8x8 sums[BM / SM / 8][BN * SM / 32];
  int row, col;    // of the simdgroup's part in the tile
  int rows, cols;  // of the operands, counted from the tile's first; may exceed the tile
  uint thread_index;

  // begin makes all sums 0.
  void begin(int rows_left, int cols_left, uint index, uint simd_index) {
    rows = rows_left;
    cols = cols_left;
    thread_index = index;
    row = int(simd_index) / (4 / SM) * (BM / SM);
    col = int(simd_index) % (4 / SM) * (BN * SM / 4);
    UNROLL
    for (int i = 0; i < BM / SM / 8; i++) {
      UNROLL
      for (int j = 0; j < BN * SM / 32; j++) {
        sums[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
      }
    }
  }

  // add adds the products of operands of the given depth. All threads call it.
  void add(threadgroup float* memory, device const uchar* a, uint a_start, uint a_line, uint a_deep,
           device const uchar* b, uint b_start, uint b_line, uint b_deep, int deep) {
    threadgroup S* a_block = (threadgroup S*)memory;
    threadgroup T* b_block = (threadgroup T*)(a_block + block_size(BM, BK));
    for (int k = 0; k < deep; k += BK) {
      stage<S, BM, BK>(a_block, a, a_as, a_across, a_fours, a_start + uint(k) * a_deep, a_line, a_deep, rows, deep - k, thread_index);
      stage<T, BN, BK>(b_block, b, b_as, b_across, b_fours, b_start + uint(k) * b_deep, b_line, b_deep, cols, deep - k, thread_index);
      add_blocks(a_block, b_block, deep - k);
    }
  }

  // add_matrix is add with lines of B from line `first` on of a decoded matrix.
  template <typename M>
  void add_matrix(threadgroup float* memory, device const uchar* a, uint a_start, uint a_line, thread const M& b, int first, int deep) {
    threadgroup S* a_block = (threadgroup S*)memory;
    threadgroup T* b_block = (threadgroup T*)(a_block + block_size(BM, BK));
    for (int k = 0; k < deep; k += BK) {
      stage<S, BM, BK>(a_block, a, a_as, a_across, a_fours, a_start + uint(k), a_line, 1, rows, deep - k, thread_index);
      stage_matrix<T, BN, BK, M>(b_block, b, first, k, cols, deep - k, thread_index);
      add_blocks(a_block, b_block, deep - k);
    }
  }

  // add_blocks adds the products of two blocks written by the threads, with depth `deep` remaining. All threads
  // call it, and may overwrite the blocks afterwards.
  void add_blocks(threadgroup const S* a, threadgroup const T* b, int deep) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (row < rows && col < cols) {
      multiply(a, b, deep);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }

  // multiply adds the products of two blocks, with depth `deep` remaining.
  void multiply(threadgroup const S* a, threadgroup const T* b, int deep) {
    for (int k = 0; k < BK && k < deep; k += 8) {
      simdgroup_matrix<S, 8, 8> left[BM / SM / 8];
      simdgroup_matrix<T, 8, 8> right[BN * SM / 32];
      UNROLL
      for (int i = 0; i < BM / SM / 8; i++) {
        if (a_across) {
          simdgroup_load(left[i], a + k * (BM + TILE_PAD) + row + 8 * i, BM + TILE_PAD, ulong2(0, 0), true);
        } else {
          simdgroup_load(left[i], a + (row + 8 * i) * (BK + TILE_PAD) + k, BK + TILE_PAD);
        }
      }
      UNROLL
      for (int j = 0; j < BN * SM / 32; j++) {
        if (b_across) {
          simdgroup_load(right[j], b + k * (BN + TILE_PAD) + col + 8 * j, BN + TILE_PAD);
        } else {
          simdgroup_load(right[j], b + (col + 8 * j) * (BK + TILE_PAD) + k, BK + TILE_PAD, ulong2(0, 0), true);
        }
      }
      UNROLL
      for (int i = 0; i < BM / SM / 8; i++) {
        UNROLL
        for (int j = 0; j < BN * SM / 32; j++) {
          simdgroup_multiply_accumulate(sums[i][j], left[i], right[j], sums[i][j]);
        }
      }
    }
  }

  // end writes the sums to C, which has c_rows rows from the tile's first on: rows that A does not have are zeros,
  // whatever B holds.
  void end(device uchar* c, uint start, uint row_stride, uint col_stride, int c_rows, uint lane) {
    const int r0 = row + matrix_row(lane), n0 = col + matrix_column(lane);
    UNROLL
    for (int i = 0; i < BM / SM / 8; i++) {
      UNROLL
      for (int j = 0; j < BN * SM / 32; j++) {
        const float2 pair = sums[i][j].thread_elements();
        const int r = r0 + 8 * i, n = n0 + 8 * j;
        const uint at = start + uint(r) * row_stride + uint(n) * col_stride;
        if (r < c_rows && n < cols) {
          set_number(c, c_as, at, r < rows ? pair.x : 0.0f);
        }
        if (r < c_rows && n + 1 < cols) {
          set_number(c, c_as, at + col_stride, r < rows ? pair.y : 0.0f);
        }
      }
    }
  }
};

#ifdef TENSOR_OPS
#include "tile_tensor.metal"
#endif
