// Sums of rows of pairs: of a token, or for a received row.
#include "exact.metal"
#include "f8.metal"

struct sum_params {
  int tokens;
  int hidden;         // elements of a row
  int choices;
  int rows;           // capacity in rows
  int row_units;      // row stride in units
  int weight_units;   // of a weight, 0 without
  int weight_step;    // stride of the rows' weights in units
  int weight_first;   // of the first row's weight
  int where;          // location of a pair's row, see below
};

// A pair's row is at place[pair], or at the pair. A row shared by pairs is at place[pair], and has a weight for each
// choice.
constant constexpr int at_places = 0;
constant constexpr int at_pairs = 1;
constant constexpr int in_common = 2;

// element returns element i of a row as a number. Rows are read in units dividing their elements,
// because on the wire a row starts where the weight before it ends.
static inline float element(device const uint* row, int i, float, int) { return as_type<float>(row[i]); }
static inline float element(device const ushort* row, int i, float, int) {
  return as_type<float>(uint(row[2 * i]) | (uint(row[2 * i + 1]) << 16));
}
static inline float element(device const ushort* row, int i, half, int) { return float(as_type<half>(row[i])); }
static inline float element(device const ushort* row, int i, bfloat, int) { return float(as_type<bfloat>(row[i])); }

// Rows sent in 8 bits are a code for each of `hidden` elements, followed by a scale, f32, for each block
// of WIRE_BLOCK.
#define WIRE_BLOCK 128
struct e4m3 {};
struct e5m2 {};
static inline float f8_value(uchar x, e4m3) { return f8_e4m3_value(x); }
static inline float f8_value(uchar x, e5m2) { return f8_e5m2_value(x); }

template <typename F>
static inline float element(device const ushort* row, int i, F f, int hidden) {
  device const ushort* scale = row + hidden / 2 + i / WIRE_BLOCK * 2;
  return f8_value(uchar(row[i / 2] >> (i % 2 * 8)), f) * element(scale, 0, 0.0f, 0);
}

// row_of returns the location of a pair's row, -1 if there is none.
static inline int row_of(device const int* place, constant sum_params& p, int pair) {
  const int row = p.where == at_pairs ? pair : place[pair];
  return row < p.rows ? row : -1;
}

// shared reports whether a pair before this one, of the same token, has the same row.
static inline bool shared(device const int* place, constant sum_params& p, int pair) {
  for (int i = pair - pair % p.choices; i < pair; i++) {
    if (place[i] == place[pair]) {
      return true;
    }
  }
  return false;
}

// row_sum returns element i of the sum of a token's rows, in the order of its choices. A row shared by
// pairs is added once.
template <typename T, typename U>
static inline float row_sum(device const U* values, device const int* place, constant sum_params& p, int token, int i) {
  float sum = 0;
  for (int k = 0; k < p.choices; k++) {
    const int pair = token * p.choices + k;
    const int row = row_of(place, p, pair);
    if (row >= 0 && !(p.where == in_common && shared(place, p, pair))) {
      sum += element(values + row * p.row_units, i, T(), p.hidden);
    }
  }
  return sum;
}

// weight_unit returns unit i of the weights of a token, 0 for a pair without a row.
template <typename U>
static inline U weight_unit(device const U* weights, device const int* place, constant sum_params& p, int token, int i) {
  const int k = i / p.weight_units;
  const int row = row_of(place, p, token * p.choices + k);
  if (row < 0) {
    return U(0);
  }
  const int own = p.where == in_common ? i : i % p.weight_units;
  return weights[p.weight_first + row * p.weight_step + own];
}
