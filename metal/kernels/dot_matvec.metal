// Products of few rows with a matrix: see matvec.metal.
#include "matvec.metal"

struct dot_matvec_params {
  int rows, cols, deep;
  uint apart, line, step, c_row, c_col;  // strides in elements
};

// dot_matvec_along has a simdgroup for every few columns, for all rows MATVEC_ROWS at a time.
template <int ROWS>
kernel void dot_matvec_along(device const uchar* x [[buffer(0)]], device const uchar* w [[buffer(1)]], device uchar* c [[buffer(2)]],
                             constant dot_matvec_params& p [[buffer(3)]], uint2 group [[threadgroup_position_in_grid]],
                             uint simdgroup [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  matvec_operands o = {x, w, group.y * ROWS * p.apart, p.apart, p.line, p.step, p.rows - int(group.y) * ROWS, p.cols, p.deep};
  const int first = int(group.x * MATVEC_SIMDS + simdgroup) * matvec_columns();
  matvec_along<ROWS>(o, first, c, group.y * ROWS * p.c_row, p.c_row, p.c_col, 1.0f, lane);
}

// dot_matvec_across has a threadgroup for every MATVEC_WIDE columns.
template <int ROWS>
kernel void dot_matvec_across(device const uchar* x [[buffer(0)]], device const uchar* w [[buffer(1)]], device uchar* c [[buffer(2)]],
                              constant dot_matvec_params& p [[buffer(3)]], uint2 group [[threadgroup_position_in_grid]],
                              uint index [[thread_index_in_threadgroup]]) {
  threadgroup float4 room[MATVEC_WAYS / 2 * MATVEC_WIDE / 4];
  matvec_operands o = {x, w, group.y * ROWS * p.apart, p.apart, p.line, p.step, p.rows - int(group.y) * ROWS, p.cols, p.deep};
  matvec_across<ROWS>(o, int(group.x) * MATVEC_WIDE, c, group.y * ROWS * p.c_row, p.c_row, p.c_col, 1.0f, (threadgroup float*)room, index);
}

#define DOT_MATVEC(name, kernel_name, ...) \
  template [[host_name(name)]] kernel decltype(kernel_name<__VA_ARGS__>) kernel_name<__VA_ARGS__>;

DOT_MATVEC("dot_matvec_along_1", dot_matvec_along, 1)
DOT_MATVEC("dot_matvec_along_4", dot_matvec_along, MATVEC_ROWS)
DOT_MATVEC("dot_matvec_across_1", dot_matvec_across, 1)
DOT_MATVEC("dot_matvec_across_4", dot_matvec_across, MATVEC_ROWS)
