// ep_pack_inline, ep_arrived and ep_from_segments: rows travelling with their choices.
//
// On the wire every other member of the group has a segment with capacity for all tokens of a rank,
// and the receive buffer has a segment for each member. Each row is followed by its note: the number
// of the token, -1 after the last row of a segment, and the token's choices. Notes are read and
// written by bytes, because rows may have any length.
#include "ep_owners.metal"
#include "pair_faults.metal"
#include "row_copy.metal"
#include "scan.metal"
#include "stable_place.metal"

struct inline_params {
  int tokens;   // of the whole batch
  int choices;  // of a token
  int members;  // ranks of the group
  int member;   // this rank's number among them
  int segment;  // rows
  int row;      // row stride on the wire in bytes
  int note;     // offset of a row's note
};

// The groups' splits are starts[members + 1], the first expert of each member, followed by
// from[members] and to[members], the range of each member's tokens.

static inline int first_token(constant int* split, constant inline_params& p, int m) { return split[p.members + 1 + m]; }
static inline int end_token(constant int* split, constant inline_params& p, int m) { return split[2 * p.members + 1 + m]; }

// inline_keys writes for each of the rank's pairs the member to which it leads a row, -1 if it leads
// none or none that leaves; and marks each row on the wire as belonging to no token. A routing may
// come from elsewhere and name nonexistent experts, which is a mistake.
kernel void inline_keys(device const int* routing [[buffer(0)]],
                        device int* keys [[buffer(1)]],
                        device int* order [[buffer(2)]],
                        device atomic_int* status [[buffer(3)]],
                        constant int* split [[buffer(4)]],
                        constant inline_params& p [[buffer(5)]],
                        constant pairs_params& pairs [[buffer(6)]],
                        uint at [[thread_position_in_grid]]) {
  const int i = int(at);
  if (i < (p.members - 1) * p.segment) {
    order[i] = -1;
  }
  if (i >= pairs.pairs) {
    return;
  }
  report_pair<int>(status, routing, pairs, i);
  const int c = i % p.choices;
  device const int* chosen = routing + 2 * (i - c);
  int m = -1;
  if (chosen[2 * c] >= 0 && lead_of(chosen, 2, split, p.members, c) == c) {
    m = owner(split, p.members, chosen[2 * c]);
  }
  keys[i] = m == p.member ? -1 : m;
}

// inline_places writes the token of each row on the wire, for the pairs of segment tg, using one
// simdgroup. earlier are, per member, the pairs with its key in the segments before, if there are
// several. It also completes the status.
kernel void inline_places(device const int* keys [[buffer(0)]],
                          device const int* earlier [[buffer(1)]],
                          device int* order [[buffer(2)]],
                          device const int* routing [[buffer(3)]],
                          device atomic_int* status [[buffer(4)]],
                          constant inline_params& p [[buffer(5)]],
                          constant pairs_params& pairs [[buffer(6)]],
                          constant pairs_params& leads [[buffer(7)]],
                          threadgroup int* bins [[threadgroup(0)]],
                          uint tg [[threadgroup_position_in_grid]],
                          uint lane [[thread_index_in_simdgroup]]) {
  const int segment = int(tg);
  for (int m = int(lane); m < p.members; m += 32) {
    bins[m] = leads.segments > 1 ? earlier[m * leads.segments + segment] : 0;
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
  const int from = segment * leads.segment;
  const int to = min(from + leads.segment, leads.pairs);
  for (int at = from; at < to; at += 32) {
    const int i = at + int(lane);
    const int m = owned_pair<int>(keys, leads, i);
    const int place = stable_place(bins, m, leads.bits, lane);
    if (m >= 0) {
      order[(m > p.member ? m - 1 : m) * p.segment + place] = i / p.choices;
    }
  }
  if (tg == 0 && lane == 0) {
    explain_pair<int>(status, routing, pairs);
  }
}

// put_note writes number i of a note.
static inline void put_note(device uchar* note, int i, int x) {
  for (int b = 0; b < 4; b++) {
    note[4 * i + b] = uchar(uint(x) >> (8 * b));
  }
}

// noted returns number i of a note.
static inline int noted(device const uchar* note, int i) {
  uint x = 0;
  for (int b = 0; b < 4; b++) {
    x |= uint(note[4 * i + b]) << (8 * b);
  }
  return int(x);
}

// ep_pack_inline copies the row of token order[j], and the weights of its choices, to place j on the
// wire, and writes its note. A row belonging to no token is zero except for its number. The thread
// after the copying ones writes the note. Notes are written to the wire's memory, too.
template <typename U>
kernel void ep_pack_inline(device const U* values [[buffer(0)]],
                           device const U* weights [[buffer(1)]],
                           device const int* order [[buffer(2)]],
                           device const int* routing [[buffer(3)]],
                           device U* wire [[buffer(4)]],
                           device uchar* notes [[buffer(5)]],
                           constant inline_params& p [[buffer(6)]],
                           constant rows_params& rows [[buffer(7)]],
                           uint2 at [[thread_position_in_grid]]) {
  const int j = int(at.y);
  const int column = int(at.x);
  const int columns = row_columns<U>(rows);
  if (j >= rows.items || column > columns) {
    return;
  }
  const int token = order[j];
  if (column == columns) {
    device uchar* note = notes + j * p.row + p.note;
    put_note(note, 0, token);
    for (int c = 0; c < p.choices; c++) {
      put_note(note, 1 + c, token < 0 ? 0 : routing[2 * (token * p.choices + c)]);
    }
    if (p.note + 4 * (1 + p.choices) < p.row) {
      put_note(note, 1 + p.choices, 0);
    }
    return;
  }
  device U* to = wire + j * rows.packed;
  if (token < 0) {
    clear_row<U>(to, to + rows.values, column, rows);
  } else {
    copy_row<U>(to, to + rows.values, values + token * rows.values, weights + token * rows.weight, column, rows);
  }
}

// arrived_own initializes the choices of the whole batch with the rank's own tokens' choices, and -1
// for all others; and the numbers of rows received from each member.
kernel void arrived_own(device const int* routing [[buffer(0)]],
                        device int* chosen [[buffer(1)]],
                        device int* counts [[buffer(2)]],
                        constant int* split [[buffer(3)]],
                        constant inline_params& p [[buffer(4)]],
                        uint at [[thread_position_in_grid]]) {
  const int i = int(at);
  if (i < p.members) {
    counts[i] = 0;
  }
  if (i >= p.tokens * p.choices) {
    return;
  }
  const int first = first_token(split, p, p.member) * p.choices;
  const int end = end_token(split, p, p.member) * p.choices;
  chosen[i] = i >= first && i < end ? routing[2 * (i - first)] : -1;
}

// arrived_rows counts row j of the received rows, if it belongs to a token, and writes the token's
// choices. Rows of the rank's own tokens do not travel: for the count, token i has row i of their
// segment if the rank has experts for it. A token that the member does not have is a mistake.
kernel void arrived_rows(device const uchar* got [[buffer(0)]],
                         device const int* routing [[buffer(1)]],
                         device int* chosen [[buffer(2)]],
                         device atomic_int* counts [[buffer(3)]],
                         device atomic_int* status [[buffer(4)]],
                         constant int* split [[buffer(5)]],
                         constant inline_params& p [[buffer(6)]],
                         uint at [[thread_position_in_grid]]) {
  const int j = int(at);
  if (j >= p.members * p.segment) {
    return;
  }
  const int m = j / p.segment;
  const int tokens = end_token(split, p, m) - first_token(split, p, m);
  bool comes = false;
  if (m == p.member) {
    const int token = j - m * p.segment;
    for (int c = 0; token < tokens && c < p.choices; c++) {
      const int e = routing[2 * (token * p.choices + c)];
      comes = comes || (e >= split[m] && e < split[m + 1]);
    }
  } else {
    device const uchar* note = got + j * p.row + p.note;
    const int token = noted(note, 0);
    if (token >= tokens) {
      report(status, j);
      return;
    }
    comes = token >= 0;
    for (int c = 0; comes && c < p.choices; c++) {
      chosen[(first_token(split, p, m) + token) * p.choices + c] = noted(note, 1 + c);
    }
  }
  if (comes) {
    atomic_fetch_add_explicit(counts + m, 1, memory_order_relaxed);
  }
}

// arrived_at writes the location of row i of the received rows: they fill segments from the
// beginning. It also writes to status[1] the token of the row reported in status[0].
kernel void arrived_at(device const int* counts [[buffer(0)]],
                       device const uchar* got [[buffer(1)]],
                       device int* place [[buffer(2)]],
                       device atomic_int* status [[buffer(3)]],
                       constant inline_params& p [[buffer(4)]],
                       uint at [[thread_position_in_grid]]) {
  const int i = int(at);
  if (i >= p.members * p.segment) {
    return;
  }
  int before = 0;
  int m = 0;
  while (m < p.members && i >= before + counts[m]) {
    before += counts[m];
    m++;
  }
  place[i] = m < p.members ? m * p.segment + i - before : 0;
  if (i == 0) {
    const int wrong = atomic_load_explicit(status, memory_order_relaxed);
    if (wrong != status_clear) {
      atomic_store_explicit(status + 1, noted(got + wrong * p.row + p.note, 0), memory_order_relaxed);
    }
  }
}

// ep_from_segments finds the received row that fills row i of the zones: from[i] is its number among
// the received rows, -1 for none.
kernel void ep_from_segments(device const int* from [[buffer(0)]],
                             device const int* place [[buffer(1)]],
                             device int* row [[buffer(2)]],
                             constant int& rows [[buffer(3)]],
                             uint at [[thread_position_in_grid]]) {
  const int i = int(at);
  if (i < rows) {
    row[i] = from[i] >= 0 ? place[from[i]] : -1;
  }
}

#define ep_pack_inline_of(U, suffix) \
  template [[host_name("ep_pack_inline_" suffix)]] [[kernel]] decltype(ep_pack_inline<U>) ep_pack_inline<U>;

ep_pack_inline_of(uchar, "1")
ep_pack_inline_of(ushort, "2")
ep_pack_inline_of(uint, "4")
ep_pack_inline_of(uint4, "16")
