// Writing rows of sequences into their caches, in the cache's element type.
#include "numbers.metal"

constant int CACHE_AS [[function_constant(0)]];
constant int UPDATE_AS [[function_constant(1)]];

// Sizes are in elements or, for a cache in blocks, in blocks of 32. count is the size of the
// update, each the size of a sequence's part of it, row the size of a row, and room the size of a
// sequence's cache. last is the last row at which the update fits.
struct Cached {
  int count, each, row, room, last;
};

// cache_place returns the destination of unit i of the update, or -1 if its sequence's rows do not
// fit, which is reported elsewhere.
static inline int cache_place(device const int* starts, constant Cached& p, int i) {
  int b = i / p.each;
  int start = starts[b];
  return start < 0 || start > p.last ? -1 : b * p.room + start * p.row + i % p.each;
}

// cache_write writes an element per thread.
kernel void cache_write(device const uchar* update [[buffer(0)]], device const int* starts [[buffer(1)]],
                        device uchar* cache [[buffer(2)]], constant Cached& p [[buffer(3)]],
                        uint gid [[thread_position_in_grid]]) {
  int i = int(gid);
  int to = i < p.count ? cache_place(starts, p, i) : -1;
  if (to >= 0) {
    set_number(cache, CACHE_AS, uint(to), number(update, UPDATE_AS, uint(i)));
  }
}

// cache_write_q8_0 writes a block per thread, computed as in package quant: d, an f16, is the
// largest magnitude divided by 127, and elements are the nearest multiples of it. A block with a
// NaN or an infinity is all NaN.
kernel void cache_write_q8_0(device const uchar* update [[buffer(0)]], device const int* starts [[buffer(1)]],
                             device uchar* cache [[buffer(2)]], constant Cached& p [[buffer(3)]],
                             uint gid [[thread_position_in_grid]]) {
  int i = int(gid);
  int to = i < p.count ? cache_place(starts, p, i) : -1;
  if (to < 0) {
    return;
  }
  device uchar* block = cache + ulong(to) * 34;
  float largest = 0.0f;
  bool finite = true;
  for (int e = 0; e < 32; e++) {
    float x = number(update, UPDATE_AS, uint(i) * 32 + uint(e));
    finite = finite && isfinite(x);
    largest = max(largest, fabs(x));
  }
  float d = largest / 127.0f;
  *(device ushort*)block = finite ? as_type<ushort>(half(d)) : ushort(0x7e00);
  float inverse = 1.0f / d;
  for (int e = 0; e < 32; e++) {
    float x = number(update, UPDATE_AS, uint(i) * 32 + uint(e));
    block[2 + e] = finite && d != 0.0f ? uchar(char(clamp(round(x * inverse), -127.0f, 127.0f))) : uchar(0);
  }
}
