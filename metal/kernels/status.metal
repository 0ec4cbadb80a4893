// Status records, in which kernels report mistakes in their arguments.
#include "common.metal"

// status_clear is what elements hold while there is no mistake.
constant int status_clear = 0x7fffffff;

// report brings element 0 of a status record down to `place`.
static inline void report(device atomic_int* status, int place) {
  atomic_fetch_min_explicit(status, place, memory_order_relaxed);
}
