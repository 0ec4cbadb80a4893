// Where a simdgroup's threads have the elements of a matrix of 8 by 8: two that are next to each
// other in a row. MLX's and Apple's own kernels rely on the same places.
#include "common.metal"

static inline int matrix_row(uint lane) { return int(lane) / 16 * 4 + int(lane) / 2 % 4; }
static inline int matrix_column(uint lane) { return int(lane) / 8 % 2 * 4 + int(lane) % 2 * 2; }
