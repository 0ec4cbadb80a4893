// Every row times two matrices of its expert, gate and up, and silu(gate) · up of the results, which
// are first rounded to the type of the result, without writing them.
#include "functions.metal"
#include "matvec.metal"
#include "through_rows.metal"
#include "tile_zone.metal"

struct grouped_swiglu_params {
  int experts, align, cols, deep;
  uint apart;           // row stride in elements
  uint w_line, w_deep;  // strides in a matrix, in elements
  uint matrix[2];       // bytes of a matrix: see matrix_of
};

// rounded returns a number as the result would hold it.
static inline float rounded(float v) {
  if (c_as == AS_F16) {
    return float(half(v));
  }
  return c_as == AS_BF16 ? float(bfloat(v)) : v;
}

static inline float swiglu(float gate, float up) {
  const float g = rounded(gate);
  return g * logistic(g) * rounded(up);
}

// stage_pair is stage for two matrices, interleaving their columns by eight: 8 lines of the first,
// then 8 of the other.
template <typename S, int LINES, int DEEP>
static inline void stage_pair(threadgroup S* to, device const uchar* gate, device const uchar* up, uint start, uint line_stride, uint deep_stride,
                              int cols, int deep, uint thread_index) {
  for (int q = int(thread_index); q < LINES * DEEP / 4; q += TILE_THREADS) {
    const int line = b_across ? q % (LINES / 4) * 4 : q / (DEEP / 4);
    const int k = b_across ? q / (LINES / 4) : q % (DEEP / 4) * 4;
    const int column = line / 16 * 8 + line % 8;
    const int left = b_across ? (k < deep ? cols - column : 0) : (column < cols ? deep - k : 0);
    const float4 v = staged(line / 8 % 2 == 0 ? gate : up, b_as, b_fours, start + uint(column) * line_stride + uint(k) * deep_stride,
                            b_across ? line_stride : deep_stride, left);
    put_four(to + (b_across ? k * (LINES + TILE_PAD) + line : line * (DEEP + TILE_PAD) + k), v);
  }
}

// put_gated writes swiglu of a tile's columns of gate and up, for the given number of rows, some of
// them in use.
template <typename S, typename T, int BM, int BN, int BK, int SM, typename = enable_if_t<(SM > 0)>>
static inline void put_gated(thread tile<S, T, BM, BN, BK, SM>& t, device uchar* y, uint start, uint apart, int cols, int used, int rows, uint lane) {
  const int r0 = t.row + matrix_row(lane), n0 = t.col / 2 + matrix_column(lane);
  UNROLL
  for (int i = 0; i < BM / SM / 8; i++) {
    UNROLL
    for (int j = 0; j < BN * SM / 64; j++) {
      const float2 g = t.sums[i][2 * j].thread_elements(), u = t.sums[i][2 * j + 1].thread_elements();
      const int r = r0 + 8 * i, n = n0 + 8 * j;
      const uint at = start + uint(r) * apart + uint(n);
      if (r < rows && n < cols) {
        set_number(y, c_as, at, r < used ? swiglu(g.x, u.x) : 0.0f);
      }
      if (r < rows && n + 1 < cols) {
        set_number(y, c_as, at + 1, r < used ? swiglu(g.y, u.y) : 0.0f);
      }
    }
  }
}

#ifdef TENSOR_OPS
template <typename S, int BM, int BN, int BK, bool A_ACROSS, bool B_ACROSS>
static inline void put_gated(thread tensor_tile<S, BM, BN, BK, A_ACROSS, B_ACROSS>& t, device uchar* y, uint start, uint apart, int cols, int used, int rows, uint) {
  t.spread();
  for (int i = int(t.thread_index); i < BM * BN / 2; i += TILE_THREADS) {
    const int r = i / (BN / 2), n = i % (BN / 2), from = n / 8 * 16 + n % 8;
    if (r < rows && n < cols) {
      set_number(y, c_as, start + uint(r) * apart + uint(n), r < used ? swiglu(t.sum(r, from), t.sum(r, from + 8)) : 0.0f);
    }
  }
}
#endif

// grouped_swiglu has a threadgroup for every tile that zones may have, of BN / 2 columns.
template <typename S, typename T, int BM, int BN, int BK, int SM>
kernel void grouped_swiglu(device const uchar* x [[buffer(0)]], device const uchar* gate [[buffer(1)]], device const uchar* up [[buffer(2)]],
                           device uchar* y [[buffer(3)]], device const int* counts [[buffer(4)]], device const int* at [[buffer(5)]], constant grouped_swiglu_params& p [[buffer(6)]],
                           uint3 group [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                           uint simd_index [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float4 fours[tile_fours(sizeof(S), sizeof(T), BM, BN, BK, SM)];
  threadgroup S* a_block = (threadgroup S*)fours;
  threadgroup T* b_block = (threadgroup T*)(a_block + block_size(BM, BK));
  const zone_tile z = tile_of_zones(counts, p.experts, p.align, BM, int(group.y), lane);
  if (z.expert < 0) {
    return;
  }
  const int first = int(group.x) * (BN / 2), cols = p.cols - first;
  tile<S, T, BM, BN, BK, SM> t;
  t.begin(z.used, BN, index, simd_index);
  if (z.used > 0) {
    const expert_rows rows = {x, at, p.apart};
    device const uchar* own_gate = matrix_of(gate, p.matrix, z.expert);
    device const uchar* own_up = matrix_of(up, p.matrix, z.expert);
    for (int k = 0; k < p.deep; k += BK) {
      stage_rows<S, BM, BK>(a_block, rows, a_as, a_across, a_fours, a_through, uint(z.row), uint(k), z.used, p.deep - k, index);
      stage_pair<T, BN, BK>(b_block, own_gate, own_up, uint(first) * p.w_line + uint(k) * p.w_deep, p.w_line, p.w_deep, cols, p.deep - k, index);
      t.add_blocks(a_block, b_block, p.deep - k);
    }
  }
  put_gated(t, y, uint(z.row) * uint(p.cols) + uint(first), uint(p.cols), cols, z.used, z.rows, lane);
}

TILE_FUNCTIONS_F32(grouped_swiglu)
TILE_FUNCTIONS_16(grouped_swiglu)
TILE_FUNCTIONS_MIXED(grouped_swiglu)

// swiglu_operands returns row number t of all zones. For an unused row deep is 0.
static inline matvec_operands swiglu_operands(device const uchar* x, device const int* at, zone_tile z, constant grouped_swiglu_params& p) {
  matvec_operands o;
  o.x = x;
  o.w = x;
  const expert_rows rows = {x, at, p.apart};
  o.start = z.used > 0 ? row_start(rows, a_through, uint(z.row)) : 0;
  o.apart = p.apart;
  o.line = p.w_line;
  o.step = p.w_deep;
  o.rows = 1;
  o.cols = p.cols;
  o.deep = z.used > 0 ? p.deep : 0;
  return o;
}

kernel void grouped_swiglu_along(device const uchar* x [[buffer(0)]], device const uchar* gate [[buffer(1)]], device const uchar* up [[buffer(2)]],
                                 device uchar* y [[buffer(3)]], device const int* counts [[buffer(4)]], device const int* at [[buffer(5)]], constant grouped_swiglu_params& p [[buffer(6)]],
                                 uint2 group [[threadgroup_position_in_grid]], uint simdgroup [[simdgroup_index_in_threadgroup]],
                                 uint lane [[thread_index_in_simdgroup]]) {
  const zone_tile z = tile_of_zones(counts, p.experts, p.align, 1, int(group.y), lane);
  if (z.expert < 0) {
    return;
  }
  matvec_operands o = swiglu_operands(x, at, z, p);
  const int first = int(group.x * MATVEC_SIMDS + simdgroup) * matvec_columns();
  float g[MATVEC_MOST], u[MATVEC_MOST];
  o.w = matrix_of(gate, p.matrix, z.expert);
  matvec_sums<1>(o, first, lane, g);
  o.w = matrix_of(up, p.matrix, z.expert);
  matvec_sums<1>(o, first, lane, u);
  UNROLL
  for (int i = 0; i < MATVEC_MOST; i++) {
    if (lane == 0 && i < matvec_columns() && first + i < p.cols) {
      set_number(y, c_as, uint(z.row) * uint(p.cols) + uint(first + i), swiglu(g[i], u[i]));
    }
  }
}

kernel void grouped_swiglu_across(device const uchar* x [[buffer(0)]], device const uchar* gate [[buffer(1)]], device const uchar* up [[buffer(2)]],
                                  device uchar* y [[buffer(3)]], device const int* counts [[buffer(4)]], device const int* at [[buffer(5)]], constant grouped_swiglu_params& p [[buffer(6)]],
                                  uint2 group [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                                  uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float4 room[MATVEC_WAYS / 2 * MATVEC_WIDE / 4];
  const zone_tile z = tile_of_zones(counts, p.experts, p.align, 1, int(group.y), lane);
  if (z.expert < 0) {
    return;
  }
  matvec_operands o = swiglu_operands(x, at, z, p);
  const int first = int(group.x) * MATVEC_WIDE, own = first + int(index);
  float4 sums[1];
  o.w = matrix_of(gate, p.matrix, z.expert);
  across_parts<1>(o, first, index, sums);
  const float g = across_total(sums[0], first, (threadgroup float*)room, index);
  o.w = matrix_of(up, p.matrix, z.expert);
  across_parts<1>(o, first, index, sums);
  const float u = across_total(sums[0], first, (threadgroup float*)room, index);
  if (int(index) < MATVEC_WIDE && own < p.cols) {
    set_number(y, c_as, uint(z.row) * uint(p.cols) + uint(own), swiglu(g, u));
  }
}
