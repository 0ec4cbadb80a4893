// ep_sum: every token's sum over the rows of its choices, in their order, and every pair's
// weight.
#include "common.metal"

struct sum_params {
  int tokens;
  int hidden;         // elements of a row
  int choices;
  int rows;           // that there is room for
  int places;         // elements of order, if rows are in experts' zones
  int row_units;      // from one row to the next
  int weight_units;   // of a weight, 0 without
  int weight_step;    // units from one row's weight to the next
  int weight_first;   // of the first row's weight
  int where;          // a pair's row lies at place[pair] (0), at order[place[pair]] (1), or at the pair (2)
};

// element returns element i of a row as a number. Rows are read in units that their elements
// are whole numbers of, since on the wire a row begins where the weight before it ends.
static inline float element(device const uint* row, int i, float) { return as_type<float>(row[i]); }
static inline float element(device const ushort* row, int i, float) {
  return as_type<float>(uint(row[2 * i]) | (uint(row[2 * i + 1]) << 16));
}
static inline float element(device const ushort* row, int i, half) { return float(as_type<half>(row[i])); }
static inline float element(device const ushort* row, int i, bfloat) { return float(as_type<bfloat>(row[i])); }

// row_of returns where the row of a pair lies, -1 if there is none.
static inline int row_of(device const int* place, device const int* order, constant sum_params& p, int pair) {
  int row = p.where == 2 ? pair : place[pair];
  if (p.where == 1) {
    row = row >= 0 && row < p.places ? order[row] : -1;
  }
  return row < p.rows ? row : -1;
}

// ep_sum adds in float and rounds once to O. Threads are [elements of a token, tokens]; those
// with the first ones also copy the weights of the token's choices.
template <typename T, typename U, typename O>
kernel void ep_sum(device const U* values [[buffer(0)]],
                   device const U* weights [[buffer(1)]],
                   device const int* place [[buffer(2)]],
                   device const int* order [[buffer(3)]],
                   device O* sums [[buffer(4)]],
                   device U* to_weights [[buffer(5)]],
                   constant sum_params& p [[buffer(6)]],
                   uint2 at [[thread_position_in_grid]]) {
  const int token = int(at.y);
  const int i = int(at.x);
  if (token >= p.tokens) {
    return;
  }
  if (i < p.hidden) {
    float sum = 0;
    for (int k = 0; k < p.choices; k++) {
      const int row = row_of(place, order, p, token * p.choices + k);
      if (row >= 0) {
        sum += element(values + row * p.row_units, i, T(0));
      }
    }
    sums[token * p.hidden + i] = O(sum);
  }
  if (i < p.choices * p.weight_units) {
    const int pair = token * p.choices + i / p.weight_units;
    const int unit = i % p.weight_units;
    const int row = row_of(place, order, p, pair);
    to_weights[pair * p.weight_units + unit] = row >= 0 ? weights[p.weight_first + row * p.weight_step + unit] : U(0);
  }
}

#define ep_sum_of(T, U, O, name) \
  template [[host_name(name)]] [[kernel]] decltype(ep_sum<T, U, O>) ep_sum<T, U, O>;

ep_sum_of(float, uint, float, "ep_sum_f32")
ep_sum_of(float, ushort, float, "ep_sum_f32_2")
ep_sum_of(half, ushort, half, "ep_sum_f16")
ep_sum_of(bfloat, ushort, bfloat, "ep_sum_bf16")
ep_sum_of(half, ushort, float, "ep_sum_f16_f32")
ep_sum_of(bfloat, ushort, float, "ep_sum_bf16_f32")
