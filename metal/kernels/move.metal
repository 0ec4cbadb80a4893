// Boxes of elements from one layout to another: see box in move.go.
#include "zone_rows.metal"

constant constexpr int move_plain = 0;
constant constexpr int move_ragged = 1;  // extra is the rows in use of each expert
constant constexpr int move_from = 2;    // extra[0] is added to the start of the box in the source
constant constexpr int move_to = 3;      // or in the destination

// p is the number of elements and of dimensions, the start of the box in destination and source,
// the elements of a row of the destination, the experts and the alignment of their rows, and for
// each dimension its size and its strides in destination and source.
template <typename T, int mode>
kernel void move_elements(device const T* source [[buffer(0)]],
                          device T* destination [[buffer(1)]],
                          device const int* extra [[buffer(2)]],
                          constant int* p [[buffer(3)]],
                          uint gid [[thread_position_in_grid]]) {
  if (int(gid) < p[0]) {
    int to = p[2];
    int from = p[3];
    int rest = int(gid);
    for (int d = p[1] - 1; d >= 0; d--) {
      int size = p[7 + 3 * d];
      int index = rest % size;
      rest /= size;
      to += index * p[8 + 3 * d];
      from += index * p[9 + 3 * d];
    }
    if (mode == move_ragged) {
      int kind = row_kind(extra, p[5], p[6], to / p[4]);
      if (kind == row_used) {
        destination[to] = source[from];
      } else if (kind == row_gap) {
        destination[to] = T(0);
      }
    } else {
      destination[to + (mode == move_to ? extra[0] : 0)] = source[from + (mode == move_from ? extra[0] : 0)];
    }
  }
}

// box_start adds the contribution of one dimension's start index to the start of a box: p is the
// last index at which the box fits, the stride of the dimension, and whether it is the first.
kernel void box_start(device const int* start [[buffer(0)]],
                      device int* sum [[buffer(1)]],
                      constant int* p [[buffer(2)]],
                      uint gid [[thread_position_in_grid]]) {
  if (gid == 0) {
    int at = max(0, min(start[0], p[0])) * p[1];
    sum[0] = p[2] != 0 ? at : sum[0] + at;
  }
}

#define MOVES(size, type)                                                                                                     \
  template [[host_name("move_" #size)]] kernel decltype(move_elements<type, move_plain>) move_elements<type, move_plain>;          \
  template [[host_name("move_ragged_" #size)]] kernel decltype(move_elements<type, move_ragged>) move_elements<type, move_ragged>; \
  template [[host_name("move_from_" #size)]] kernel decltype(move_elements<type, move_from>) move_elements<type, move_from>;       \
  template [[host_name("move_to_" #size)]] kernel decltype(move_elements<type, move_to>) move_elements<type, move_to>;

MOVES(1, uchar)
MOVES(2, ushort)
MOVES(4, uint)
MOVES(8, ulong)
