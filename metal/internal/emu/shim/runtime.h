// The whole of the runtime's shared object. bfloat's conversion is in it
// because not every libgcc has one.
#pragma once
#include "worker.h"

extern "C" __attribute__((visibility("default"))) __bf16 __truncsfbf2(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  u = (u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16;  // to nearest, ties to even
  uint16_t h = (uint16_t)u;
  __bf16 r;
  memcpy(&r, &h, 2);
  return r;
}
