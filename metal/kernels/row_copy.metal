// Copies of rows.
//
// A row is the token's values, followed by the pair's weight if weights travel along; both are
// counted in units, the largest of 1, 2, 4 or 16 bytes dividing all sizes. A thread copies 16
// bytes. On the wire a row is contiguous; otherwise its values and its weight are in separate
// arrays, and weights may be missing.
#include "zones.metal"

struct rows_params {
  int items;    // pairs, or capacity in rows
  int values;   // units of a row's values
  int weight;   // units of its weight, 0 without
  int packed;   // row stride on the wire in units
  int choices;  // of a token
  int rows;     // capacity of the arrays or of the wire in rows
  int experts;  // number of experts with counted rows
  int align;
};

// units16 is the number of units in 16 bytes.
template <typename U>
static inline int units16() { return 16 / int(sizeof(U)); }

// columns returns the number of threads copying a row: some for the values, and some for the
// weight.
template <typename U, typename P>
static inline int value_columns(constant P& p) { return (p.values + units16<U>() - 1) / units16<U>(); }

template <typename U, typename P>
static inline int row_columns(constant P& p) { return value_columns<U>(p) + (p.weight + units16<U>() - 1) / units16<U>(); }

// copy_piece copies the units of a piece of 16 bytes, of n units in all.
template <typename U>
static inline void copy_piece(device U* to, device const U* from, int piece, int n) {
  const int first = piece * units16<U>();
  const int end = min(first + units16<U>(), n);
  for (int i = first; i < end; i++) {
    to[i] = from[i];
  }
}

// copy_row copies this thread's column of a row: to and from are its values, and to_weight
// and from_weight its weight.
template <typename U, typename P>
static inline void copy_row(device U* to, device U* to_weight, device const U* from, device const U* from_weight, int column, constant P& p) {
  const int columns = value_columns<U>(p);
  if (column < columns) {
    copy_piece<U>(to, from, column, p.values);
  } else {
    copy_piece<U>(to_weight, from_weight, column - columns, p.weight);
  }
}

// clear_piece zeroes the units of a piece of 16 bytes, of n units in all.
template <typename U>
static inline void clear_piece(device U* to, int piece, int n) {
  const int first = piece * units16<U>();
  const int end = min(first + units16<U>(), n);
  for (int i = first; i < end; i++) {
    to[i] = U(0);
  }
}

// clear_row zeroes this thread's column of a row.
template <typename U, typename P>
static inline void clear_row(device U* to, device U* to_weight, int column, constant P& p) {
  const int columns = value_columns<U>(p);
  if (column < columns) {
    clear_piece<U>(to, column, p.values);
  } else {
    clear_piece<U>(to_weight, column - columns, p.weight);
  }
}

// counted returns the sum of counts, using all lanes of the simdgroup.
static inline int counted(device const int* counts, int experts, uint lane) {
  int sum = 0;
  for (int e = int(lane); e < experts; e += 32) {
    sum += counts[e];
  }
  return simd_sum(sum);
}
