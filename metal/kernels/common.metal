// What all kernels share.
#include <metal_stdlib>
using namespace metal;
