// The tile of tensor operations, selected by SM <= 0: blocks are multiplied by the product of two
// tensors in Metal 4, for which GPUs have neural accelerators from family Apple10 on, the M5's. Its
// order of additions is unspecified. So there is one such tile, for many rows and for few, and the
// choice of tiles changes no bit here either.
#include "tile.metal"
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>

template <typename S>
using block_tensor = tensor<threadgroup S, dextents<int, 2>, tensor_inline>;

// tensor_tile is a tile with a cooperative tensor for its sums. The implementation decides which of a
// product's elements a thread has, in which order, and which elements of its capacity are used, so it is
// queried. A_ACROSS and B_ACROSS say whether the lines of A and of B are along the rows of blocks, like
// a_across and b_across: they are part of the type of the sums.
template <typename S, int BM, int BN, int BK, bool A_ACROSS, bool B_ACROSS>
struct tensor_tile {
  using operation = mpp::tensor_ops::matmul2d<
      mpp::tensor_ops::matmul2d_descriptor(BM, BN, BK, A_ACROSS, !B_ACROSS, false, mpp::tensor_ops::matmul2d_descriptor::mode::multiply_accumulate),
      execution_simdgroups<TILE_THREADS / 32>>;
  using product = decltype(operation().template get_destination_cooperative_tensor<block_tensor<S>, block_tensor<S>, float>());

  product sums = operation().template get_destination_cooperative_tensor<block_tensor<S>, block_tensor<S>, float>();
  threadgroup float* memory;  // of the blocks, and then of the sums
  bool any;                   // blocks have been added
  int rows, cols;             // as in the other tiles
  uint thread_index;

  void begin(int rows_left, int cols_left, uint index, uint) {
    rows = rows_left;
    cols = cols_left;
    thread_index = index;
    any = false;
    UNROLL
    for (ushort i = 0; i < sums.get_capacity(); i++) {
      if (sums.is_valid_element(i)) {
        sums[i] = 0.0f;
      }
    }
  }

  void add(threadgroup float* blocks, device const uchar* a, uint a_start, uint a_line, uint a_deep,
           device const uchar* b, uint b_start, uint b_line, uint b_deep, int deep) {
    threadgroup S* a_block = (threadgroup S*)blocks;
    threadgroup S* b_block = a_block + block_size(BM, BK);
    for (int k = 0; k < deep; k += BK) {
      stage<S, BM, BK>(a_block, a, a_as, A_ACROSS, a_fours, a_start + a_deep * uint(k), a_line, a_deep, rows, deep - k, thread_index);
      stage<S, BN, BK>(b_block, b, b_as, B_ACROSS, b_fours, b_start + uint(k) * b_deep, b_line, b_deep, cols, deep - k, thread_index);
      add_blocks(a_block, b_block, deep - k);
    }
  }

  // block returns a block of the given number of lines as a tensor.
  static block_tensor<S> block(threadgroup S* at, int lines, bool across) {
    return block_tensor<S>(at, across ? dextents<int, 2>(lines, BK) : dextents<int, 2>(BK, lines),
                           array<int, 2>{1, (across ? lines : BK) + TILE_PAD});
  }

  // add_blocks adds the products of two blocks: elements past the depth are zeros, and all simdgroups take part.
  void add_blocks(threadgroup S* a, threadgroup S* b, int) {
    memory = (threadgroup float*)a;
    any = true;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    block_tensor<S> left = block(a, BM, A_ACROSS), right = block(b, BN, B_ACROSS);
    operation op;
    op.run(left, right, sums);
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }

  // spread writes the sums to the memory of the blocks, in rows, if any were added. All threads call it.
  void spread() {
    if (!any) {
      return;
    }
    UNROLL
    for (ushort i = 0; i < sums.get_capacity(); i++) {
      if (sums.is_valid_element(i)) {
        const auto at = sums.get_multidimensional_index(i);  // the column, and the row
        memory[at[1] * BN + at[0]] = sums[i];
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }

  // sum returns the sum of a row and a column of the tile, written by spread.
  float sum(int row, int col) const { return any && row < rows ? memory[row * BN + col] : 0.0f; }

  void end(device uchar* c, uint start, uint row_stride, uint col_stride, int c_rows, uint) {
    spread();
    for (int i = int(thread_index); i < BM * BN; i += TILE_THREADS) {
      const int r = i / BN, n = i % BN;
      if (r < c_rows && n < cols) {
        set_number(c, c_as, start + uint(r) * row_stride + uint(n) * col_stride, sum(r, n));
      }
    }
  }
};

// The layouts, in the words of BLAS, of TILE_NN and others.
template <typename S, int BM, int BN, int BK>
struct tile<S, S, BM, BN, BK, 0> : tensor_tile<S, BM, BN, BK, false, true> {};
template <typename S, int BM, int BN, int BK>
struct tile<S, S, BM, BN, BK, -1> : tensor_tile<S, BM, BN, BK, false, false> {};
template <typename S, int BM, int BN, int BK>
struct tile<S, S, BM, BN, BK, -2> : tensor_tile<S, BM, BN, BK, true, true> {};
template <typename S, int BM, int BN, int BK>
struct tile<S, S, BM, BN, BK, -3> : tensor_tile<S, BM, BN, BK, true, false> {};
