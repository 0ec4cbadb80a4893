// The exports of a compiled library of kernels, the runtime it needs, and the description of a dispatch. This header is C and
// C++, and includes only integer types, so that a program that only runs kernels needs no other header of the emulated GPU.
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// msl_entry is a kernel's machine code as the runtime calls it: once per
// Metal thread, on that thread's fibre.
typedef void (*msl_entry)(void* threadgroup, void* lane);

// msl_kernel describes a kernel or an explicit instantiation of a template. args is one clause per memory argument, in the order
// of the parameters: "bufN:type name;" for [[buffer(N)]], "tgmemN:type name;" for [[threadgroup(N)]]. A table of kernels ends at
// a null name.
typedef struct {
  const char* name;
  msl_entry fn;
  const char* args;
} msl_kernel;

// msl_constant describes a function constant: size bytes at value are read by every kernel of the library, so they change
// between dispatches only. All its bytes are zero until it is set. A table ends at a null name.
typedef struct {
  const char* name;
  int32_t index;
  uint32_t size;
  void* value;
} msl_constant;

enum { MSL_FORWARD = 0, MSL_REVERSE = 1, MSL_RANDOM = 2 };

// msl_counted holds the counts of a buffer. read counts each byte once per threadgroup, and once counts each byte once. seen has
// a zero for each byte of the buffer, or is null: then neither counts.
typedef struct {
  uint64_t begin, size;  // address and length; size is 0 for no buffer
  uint32_t* seen;
  uint64_t loads, read, once, written;  // bytes
} msl_counted;

// msl_counts is the work of a dispatch: bytes, and products of matrices by the size of their operands' elements, separately for
// tensor operations. operations are arithmetic instructions of threads, vector instructions counting once per element;
// simd_operations are operations synchronizing a simdgroup, including barriers.
typedef struct {
  msl_counted buffers[31];
  uint64_t memory_read, memory_written;  // of threadgroup memory
  uint64_t tables;                       // bytes read of the program's own constants
  uint64_t products16, products32, products_tensor, operations, simd_operations, barriers;
  uint32_t turn, unused;  // the number of the threadgroup that runs, from 1 on
} msl_counts;

// msl_dispatch is one dispatch. Buffer i is at bufs[i], for at most 31 buffers. All [[threadgroup(i)]] arguments are in one
// memory of smem bytes, argument i starting at byte lens[i], a multiple of 16. tgs counts threadgroups, ntg the threads of a
// full threadgroup and grid all threads, each in x, y and z; a threadgroup at the upper edge has fewer threads where grid is no
// multiple of ntg.
typedef struct {
  msl_entry fn;
  void** bufs;
  uint64_t* lens;
  uint32_t tgs[3];
  uint32_t ntg[3];
  uint32_t grid[3];
  uint32_t smem;
  uint32_t order;   // MSL_FORWARD, MSL_REVERSE or MSL_RANDOM: of threadgroups, simdgroups and lanes
  uint32_t poison;  // nonzero: threadgroup memory begins as bytes 0xFF, which are NaN and -1
  uint64_t seed;    // of MSL_RANDOM
  uint32_t flush;   // nonzero: numbers that are not normal are zeros
  uint32_t limit;   // the most bytes of threadgroup memory that the kernel may have; 0: as many as the GPU has
  msl_counts* counts;  // where to add counts, for libraries built for counting; null otherwise. One worker at a time uses it
} msl_dispatch;

// MSL_UNFENCED is the signal of a fault without a signal: a read not ordered by a barrier after another thread's write.
enum { MSL_UNFENCED = -1 };

// msl_fault describes an illegal memory access of a kernel: the faulting address, and the signal reporting it; signal is 0 after
// any other error.
typedef struct {
  uint64_t address;
  int32_t signal;
  int32_t write;  // 1: a store, 2: a load, 0: unknown
} msl_fault;

#ifndef MSL_ABI_TYPES_ONLY
// Tables.
extern msl_kernel msl_kernels[];
extern msl_constant msl_fcs[];
// Nonzero while a dispatch reads the constants. Before a caller sets constants, it
// changes this value from 0 to 1 atomically, and back to 0 after the dispatch.
extern uint32_t msl_fcs_busy;

// The functions are in the runtime's shared object; dlsym finds them by the
// handle of any library of kernels. A worker runs kernels of all of them.
//
// A worker has the stacks and the threadgroup memory of one threadgroup. One
// thread at a time uses it. msl_worker_new returns null without memory.
void* msl_worker_new(void);
void msl_worker_free(void* worker);

// msl_run runs threadgroups [lo, hi) of the flattened grid, x fastest, on the calling thread. It returns 0, or 1 after an error:
// msl_worker_err returns its text, and msl_worker_fault describes an illegal memory access.
int msl_run(void* worker, msl_dispatch* d, uint64_t lo, uint64_t hi);
const char* msl_worker_err(void* worker);
void msl_worker_fault(void* worker, msl_fault* out);

// msl_worker_stop makes an msl_run on another thread return an error soon, even from an endless loop. It does nothing to an idle
// worker. The call may come just before msl_run begins or just after it ends, so repeat it until msl_run has returned.
void msl_worker_stop(void* worker);

// msl_worker_stats writes what the worker did since it was made: switches of
// fibres, threadgroup barriers, simdgroup operations, threads.
void msl_worker_stats(void* worker, uint64_t out[4]);
#endif

#ifdef __cplusplus
}
#endif
