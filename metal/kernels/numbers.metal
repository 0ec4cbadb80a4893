// Elements of any float type, or in blocks, by a code that is a function constant, so that reading
// and writing them is compiled for one type. Numbers widen exactly and are rounded once.
#include "blocks.metal"

#define AS_F32 0
#define AS_F16 1
#define AS_BF16 2

// number returns element i.
static inline float number(device const uchar* x, int as, uint i) {
  if (as == AS_F32) {
    return ((device const float*)x)[i];
  }
  if (as == AS_F16) {
    return float(((device const half*)x)[i]);
  }
  if (as >= AS_Q8_0) {
    return block_number(x, as, i);
  }
  return float(((device const bfloat*)x)[i]);
}

// numbers returns elements i to i+3, with i a multiple of 4.
static inline float4 numbers(device const uchar* x, int as, uint i) {
  if (as == AS_F32) {
    return *(device const float4*)((device const float*)x + i);
  }
  if (as == AS_F16) {
    return float4(*(device const half4*)((device const half*)x + i));
  }
  if (as >= AS_Q8_0) {
    return float4(block_number(x, as, i), block_number(x, as, i + 1), block_number(x, as, i + 2), block_number(x, as, i + 3));
  }
  return float4(*(device const bfloat4*)((device const bfloat*)x + i));
}

// set_number sets element i.
static inline void set_number(device uchar* x, int as, uint i, float v) {
  if (as == AS_F32) {
    ((device float*)x)[i] = v;
  } else if (as == AS_F16) {
    ((device half*)x)[i] = half(v);
  } else {
    ((device bfloat*)x)[i] = bfloat(v);
  }
}
