// Status records, in which kernels report mistakes in their arguments.
#include "common.metal"

// status_clear is the value of the elements without a mistake.
constant int status_clear = 0x7fffffff;

// report lowers element 0 of a status record to `place`.
static inline void report(device atomic_int* status, int place) {
  atomic_fetch_min_explicit(status, place, memory_order_relaxed);
}
