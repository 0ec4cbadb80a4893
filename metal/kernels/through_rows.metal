// Experts' rows read by a product in place, or through an index.
#include "tile.metal"

constant bool a_through [[function_constant(7)]];  // rows of A are read through an index
constant bool b_through [[function_constant(8)]];  // and those of B

// expert_rows are rows of experts: row i starts at element at[i] · apart of x if they are read through
// an index, and otherwise at i · apart.
struct expert_rows {
  device const uchar* x;
  device const int* at;
  uint apart;
};

// row_start returns the start of row i, which is in use, in elements.
static inline uint row_start(thread const expert_rows& x, bool through, uint i) {
  return (through ? uint(x.at[i]) : i) * x.apart;
}

// stage_rows is stage for rows from `first` on, and their elements from `from` on: rows are the lines
// or, if across, lie along the depth.
template <typename S, int LINES, int DEEP>
static inline void stage_rows(threadgroup S* to, thread const expert_rows& x, int as, bool across, bool fours, bool through,
                              uint first, uint from, int lines, int deep, uint thread_index) {
  for (int q = int(thread_index); q < LINES * DEEP / 4; q += TILE_THREADS) {
    const int line = across ? q % (LINES / 4) * 4 : q / (DEEP / 4);
    const int k = across ? q / (LINES / 4) : q % (DEEP / 4) * 4;
    const int left = across ? (k < deep ? lines - line : 0) : (line < lines ? deep - k : 0);
    float4 v = float4(0.0f);
    if (left > 0) {
      const uint at = row_start(x, through, first + uint(across ? k : line)) + from + uint(across ? line : k);
      v = staged(x.x, as, fours, at, 1, left);
    }
    put_four(to + (across ? k * (LINES + TILE_PAD) + line : line * (DEEP + TILE_PAD) + k), v);
  }
}
