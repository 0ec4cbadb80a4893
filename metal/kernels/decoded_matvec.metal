// Few rows times decoded matrices: see matvec.metal and decoded_matrix.metal. Every byte of a matrix
// is read once, and along the sum each scale is read once per 32 elements.
#include "decoded_matrix.metal"
#include "matvec.metal"

// decoded_rows finds the rows of a threadgroup: ROWS of all, or one of the zones, returning its
// expert; -1 past the last zone. For an unused row deep is 0.
template <int ROWS>
static inline int decoded_rows(device const uchar* x, device const int* counts, constant decoded_params& p, int t, uint lane,
                               thread matvec_operands& o, thread int& row) {
  o.x = x;
  o.w = x;  // is not read
  o.apart = uint(p.deep);
  o.line = o.step = 0;
  o.cols = p.cols;
  o.deep = p.deep;
  row = t * ROWS;
  o.rows = p.rows - row;
  int expert = 0;
  if (p.experts > 0) {
    const zone_tile z = tile_of_zones(counts, p.experts, p.align, 1, t, lane);
    expert = z.expert;
    row = z.row;
    o.rows = 1;
    o.deep = z.used > 0 ? p.deep : 0;
  }
  o.start = uint(row) * uint(p.deep);
  return expert;
}

// decoded_row loads 32 elements of a row, with `left` elements remaining.
static inline void decoded_row(thread const matvec_operands& o, int row, int k, int left, thread float* out) {
  UNROLL
  for (int e = 0; e < 32; e += 4) {
    const float4 four = row_four(o, row, k + e, left - e);
    out[e] = four.x;
    out[e + 1] = four.y;
    out[e + 2] = four.z;
    out[e + 3] = four.w;
  }
}

// decoded_along uses a simdgroup for every MATVEC_MOST columns. A thread has every 32nd unit of 32
// elements of each.
template <typename M, int ROWS>
kernel void decoded_along(device const uchar* x [[buffer(0)]], device const uchar* w [[buffer(1)]], device uchar* y [[buffer(2)]],
                          device const int* counts [[buffer(3)]], device const uchar* scales [[buffer(4)]],
                          device const uchar* biases [[buffer(5)]], constant decoded_params& p [[buffer(6)]],
                          uint2 group [[threadgroup_position_in_grid]], uint simdgroup [[simdgroup_index_in_threadgroup]],
                          uint lane [[thread_index_in_simdgroup]]) {
  matvec_operands o;
  int row;
  const int expert = decoded_rows<ROWS>(x, counts, p, int(group.y), lane, o, row);
  if (expert < 0) {
    return;
  }
  M m;
  m.begin(w, scales, biases, p, expert);
  const int first = int(group.x * MATVEC_SIMDS + simdgroup) * MATVEC_MOST;
  float sums[ROWS * MATVEC_MOST];
  UNROLL
  for (int i = 0; i < ROWS * MATVEC_MOST; i++) {
    sums[i] = 0.0f;
  }
  for (int k = int(lane) * 32; k < o.deep; k += 1024) {
    const int left = o.deep - k;
    float x_unit[32];
    if (ROWS == 1) {
      decoded_row(o, 0, k, left, x_unit);
    }
    UNROLL
    for (int c = 0; c < MATVEC_MOST; c++) {
      if (first + c < o.cols) {
        float w_unit[32];
        if (c % M::tall == 0) {  // as the matrix's row is: a simdgroup's first is a multiple of MATVEC_MOST
          m.head(first + c, k);
        }
        m.unit(first + c, k, left, w_unit);
        UNROLL
        for (int r = 0; r < ROWS; r++) {
          if (r < o.rows) {
            if (ROWS > 1) {
              decoded_row(o, r, k, left, x_unit);
            }
            float s = sums[r * MATVEC_MOST + c];
            UNROLL
            for (int e = 0; e < 32; e++) {
              s += x_unit[e] * w_unit[e];
            }
            sums[r * MATVEC_MOST + c] = s;
          }
        }
      }
    }
  }
  matvec_total<ROWS>(o, first, sums);
  matvec_put<ROWS>(o, first, y, uint(row) * uint(p.cols), uint(p.cols), 1, 1.0f, lane, sums);
}

// decoded_across uses a threadgroup for every MATVEC_WIDE columns. A thread has four, and every
// MATVEC_WAYS-th element of the sum; it reads the common part of a block at the block's start.
template <typename M, int ROWS>
kernel void decoded_across(device const uchar* x [[buffer(0)]], device const uchar* w [[buffer(1)]], device uchar* y [[buffer(2)]],
                           device const int* counts [[buffer(3)]], device const uchar* scales [[buffer(4)]],
                           device const uchar* biases [[buffer(5)]], constant decoded_params& p [[buffer(6)]],
                           uint2 group [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                           uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float4 room[MATVEC_WAYS / 2 * MATVEC_WIDE / 4];
  matvec_operands o;
  int row;
  const int expert = decoded_rows<ROWS>(x, counts, p, int(group.y), lane, o, row);
  if (expert < 0) {
    return;
  }
  M m;
  m.begin(w, scales, biases, p, expert);
  const int first = int(group.x) * MATVEC_WIDE, column = across_column(first, index), left = o.cols - column;
  float4 sums[ROWS];
  UNROLL
  for (int r = 0; r < ROWS; r++) {
    sums[r] = float4(0.0f);
  }
  for (int k = across_way(index); k < o.deep && left > 0; k += MATVEC_WAYS) {
    if (k < MATVEC_WAYS || k / M::tall != (k - MATVEC_WAYS) / M::tall) {
      m.head(k, column);
    }
    const float4 four = m.four(k, column, left);
    UNROLL
    for (int r = 0; r < ROWS; r++) {
      if (r < o.rows) {
        const float4 products = number(o.x, a_as, o.start + uint(r) * o.apart + uint(k)) * four;
        sums[r] += products;
      }
    }
  }
  across_put<ROWS>(o, first, y, uint(row) * uint(p.cols), uint(p.cols), 1, 1.0f, (threadgroup float*)room, index, sums);
}

#define DECODED_MATVEC(name, kernel_name, ...) \
  template [[host_name(name)]] kernel decltype(kernel_name<__VA_ARGS__>) kernel_name<__VA_ARGS__>;
#define DECODED_MATVECS(name, M)                                       \
  DECODED_MATVEC(name "_along_1", decoded_along, M, 1)                 \
  DECODED_MATVEC(name "_along_4", decoded_along, M, MATVEC_ROWS)       \
  DECODED_MATVEC(name "_across_1", decoded_across, M, 1)               \
  DECODED_MATVEC(name "_across_4", decoded_across, M, MATVEC_ROWS)

DECODED_MATVECS("scaled_matvec", scaled_matrix)
DECODED_MATVECS("affine_matvec", affine_matrix)
