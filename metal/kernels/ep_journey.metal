// ep_journey: the rows travelling between ranks, once to each rank having experts for their token,
// and their rows of the zones.
//
// Three orders are made using ep_send_order.metal: the rank's own leading pairs by member, which is
// the order of sending rows; all tokens by the member sending them, which is the order of receiving
// rows; and all pairs by local expert, which is their order in the zones.
#include "ep_owners.metal"
#include "ep_send_order.metal"
#include "status.metal"
#include "zones.metal"

struct journey_params {
  int tokens;   // of the whole batch
  int choices;  // of a token
  int members;  // ranks of the group
  int member;   // this rank's number among them
  int first;    // the first of the rank's experts
  int local;    // number of the rank's experts
  int align;
  int leave;    // capacity for rows to send
  int rows;     // of the zones
  int room;     // capacity for received rows
};

// The groups' splits are starts[members + 1], the first expert of each member, followed by
// from[members] and to[members], the range of each member's tokens.

// sender returns the member having a token, -1 for a token of another group.
static inline int sender(constant int* split, constant journey_params& p, int token) {
  constant int* from = split + p.members + 1;
  constant int* to = from + p.members;
  for (int m = 0; m < p.members; m++) {
    if (token >= from[m] && token < to[m]) {
      return m;
    }
  }
  return -1;
}

// journey_keys writes the keys of the three orders for token t: for each of its pairs, if the token
// is the rank's own, the member to which the pair leads a row; the member sending the token; and
// the local expert of each received pair; -1 for none. It also marks row t of the zones as
// belonging to no pair.
kernel void journey_keys(device const int* chosen [[buffer(0)]],
                         device int* leads [[buffer(1)]],
                         device int* arrives [[buffer(2)]],
                         device int* locals [[buffer(3)]],
                         device int* from [[buffer(4)]],
                         device int* choice [[buffer(5)]],
                         constant int* split [[buffer(6)]],
                         constant journey_params& p [[buffer(7)]],
                         uint at [[thread_position_in_grid]]) {
  const int t = int(at);
  if (t < p.rows) {
    from[t] = -1;
    choice[t] = -1;
  }
  if (t >= p.tokens) {
    return;
  }
  const int m = sender(split, p, t);
  const int own = split[p.members + 1 + p.member];
  device const int* pairs = chosen + t * p.choices;
  bool travels = false;
  for (int c = 0; c < p.choices; c++) {
    const int e = pairs[c];
    const int local = m >= 0 ? owned<int>(e, p.first, p.local) : -1;
    locals[t * p.choices + c] = local;
    travels = travels || local >= 0;
    if (m == p.member) {
      leads[(t - own) * p.choices + c] = e >= 0 && lead_of(pairs, 1, split, p.members, c) == c ? owner(split, p.members, e) : -1;
    }
  }
  arrives[t] = travels ? m : -1;
}

// journey_zones writes, per local expert, the number of padding rows before its zone, computed from
// its pairs, followed by the rows of all zones; and to sizes the number of rows sent to each
// member, followed by the number received from each. It is one simdgroup. If the rows exceed the
// capacity of the zones, or of the receive buffer, status[0] becomes 0, status[1] their number and
// status[2] the capacity.
kernel void journey_zones(device const int* pairs [[buffer(0)]],
                          device const int* arriving [[buffer(1)]],
                          device int* gaps [[buffer(2)]],
                          device int* sizes [[buffer(3)]],
                          device atomic_int* status [[buffer(4)]],
                          constant journey_params& p [[buffer(5)]],
                          uint lane [[thread_index_in_simdgroup]]) {
  int used = 0, padding = 0;
  for (int i = 0; i < p.local; i += 32) {
    const int e = i + int(lane);
    const int rows = e < p.local ? pairs[e] : 0;
    const int zone = zone_length(rows, p.align);
    const int before = padding + simd_prefix_exclusive_sum(zone - rows);
    if (e < p.local) {
      gaps[e] = before;
    }
    padding += simd_sum(zone - rows);
    used += simd_sum(zone);
  }
  int arrive = 0;
  for (int m = int(lane); m < p.members; m += 32) {
    sizes[p.members + m] = arriving[m];
    arrive += arriving[m];
  }
  arrive = simd_sum(arrive);
  if (lane == 0) {
    gaps[p.local] = used;
    if (used > p.rows || arrive > p.room) {
      report(status, 0);
      report(status + 1, used > p.rows ? used : arrive);
      report(status + 2, used > p.rows ? p.rows : p.room);
    }
  }
}

// journey_rows writes the row of the zones for received pair i of the batch; for pair i of the rank
// the place of its row among the sent rows; and -1 after the last of these. leading, ordered and
// arrived are the three orders.
kernel void journey_rows(device const int* chosen [[buffer(0)]],
                         device const int* leads [[buffer(1)]],
                         device const int* leading [[buffer(2)]],
                         device const int* locals [[buffer(3)]],
                         device const int* ordered [[buffer(4)]],
                         device const int* arrived [[buffer(5)]],
                         device const int* gaps [[buffer(6)]],
                         device const int* sizes [[buffer(7)]],
                         device int* out [[buffer(8)]],
                         device int* home [[buffer(9)]],
                         device int* from [[buffer(10)]],
                         device int* choice [[buffer(11)]],
                         constant int* split [[buffer(12)]],
                         constant journey_params& p [[buffer(13)]],
                         uint at [[thread_position_in_grid]]) {
  const int i = int(at);
  if (i < p.leave) {
    int leaving = 0;
    for (int m = 0; m < p.members; m++) {
      leaving += sizes[m];
    }
    if (i >= leaving) {
      out[i] = -1;
    }
  }
  if (i < p.tokens * p.choices && locals[i] >= 0 && gaps[p.local] <= p.rows) {
    const int row = ordered[i] + gaps[locals[i]];
    from[row] = arrived[i / p.choices];
    choice[row] = i % p.choices;
  }
  const int own = split[p.members + 1 + p.member];
  const int end = split[2 * p.members + 1 + p.member];
  if (i >= (end - own) * p.choices) {
    return;
  }
  const int token = i / p.choices;
  device const int* pairs = chosen + (own + token) * p.choices;
  const int c = i % p.choices;
  int place = -1;
  if (pairs[c] >= 0) {
    place = leading[token * p.choices + lead_of(pairs, 1, split, p.members, c)];
    if (leads[i] >= 0) {
      out[place] = token;
    }
  }
  home[i] = place;
}
