// What all kernels share.
#include <metal_stdlib>
using namespace metal;

// Loops over what is in registers, which have no index, are unrolled.
#define UNROLL _Pragma("clang loop unroll(full)")
