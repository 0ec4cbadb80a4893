// Tiles of experts' rows, located on the GPU from the rows in use. All of a simdgroup's lanes
// search together, 32 experts at a time.
#include "zones.metal"
#include <metal_simdgroup>

// zone_tile is a number of rows of a zone.
struct zone_tile {
  int expert;  // -1: the tile is past the last zone
  int row;     // the tile's first, of all rows
  int used;    // rows in use from there on in the zone, 0 or less without any
  int rows;    // rows of the zone from there on
};

// matrix_offset returns the offset of an expert's matrix, in bytes. size is the bytes of a matrix,
// the lower word first: 32 bits count the elements of one, but neither the bytes nor the elements
// of all.
static inline ulong matrix_offset(constant uint* size, int expert) {
  return ulong(expert) * (ulong(size[0]) | ulong(size[1]) << 32);
}

// matrix_of returns an expert's matrix.
static inline device const uchar* matrix_of(device const uchar* w, constant uint* size, int expert) {
  return w + matrix_offset(size, expert);
}

// tile_of_zones returns tile number t among the tiles of all zones, each having its own, of `tall`
// rows.
static inline zone_tile tile_of_zones(device const int* counts, int experts, int align, int tall, int t, uint lane) {
  zone_tile z;
  z.expert = -1;
  z.row = z.used = z.rows = 0;
  int tiles = 0, begin = 0;  // of the experts before
  for (int first = 0; first < experts; first += 32) {
    const int e = first + int(lane);
    const int count = e < experts ? counts[e] : 0;
    const int length = zone_length(count, align);
    const int own = (length + tall - 1) / tall;
    const int tiles_end = tiles + simd_prefix_inclusive_sum(own);
    const int end = begin + simd_prefix_inclusive_sum(length);
    const uint found = simd_min(t < tiles_end ? lane : 32u);
    if (found < 32) {
      const int at = (t - simd_shuffle(tiles_end - own, ushort(found))) * tall;
      z.expert = first + int(found);
      z.row = simd_shuffle(end - length, ushort(found)) + at;
      z.used = simd_shuffle(count, ushort(found)) - at;
      z.rows = simd_shuffle(length, ushort(found)) - at;
      return z;
    }
    tiles = simd_shuffle(tiles_end, ushort(31));
    begin = simd_shuffle(end, ushort(31));
  }
  return z;
}

// zone_begin returns the first row of an expert's zone.
static inline int zone_begin(device const int* counts, int expert, int align, uint lane) {
  int rows = 0;
  for (int e = int(lane); e < expert; e += 32) {
    rows += zone_length(counts[e], align);
  }
  return simd_sum(rows);
}
