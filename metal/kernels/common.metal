// Definitions shared by all kernels.
#include <metal_stdlib>
using namespace metal;

// Loops over registers are unrolled, because registers cannot be indexed.
#define UNROLL _Pragma("clang loop unroll(full)")
