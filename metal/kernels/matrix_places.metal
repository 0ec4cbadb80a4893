// The elements of a matrix of 8 by 8 held by a simdgroup's threads: two adjacent ones of a row
// each. MLX's and Apple's own kernels rely on the same places.
#include "common.metal"

static inline int matrix_row(uint lane) { return int(lane) / 16 * 4 + int(lane) / 2 % 4; }
static inline int matrix_column(uint lane) { return int(lane) / 8 % 2 * 4 + int(lane) % 2 * 2; }
