// ep_passage: the rows travelling through machines, and their rows of the zones.
//
// Members of a group are numbered machine by machine, and a row is routed through the member of the
// other machine that has the same place as its own member. The rows are found from flags of tokens, in
// the order of their rows, and from the number of flags before each: for own tokens sent to a machine
// [machines, tokens]; for tokens with rows received from a machine, the same; for tokens passed on to a
// member [members of a machine, machines, tokens]; and for tokens received from one.
#include "ep_journey.metal"
#include "row_copy.metal"

struct passage_params {
  int tokens;    // of the whole batch
  int choices;   // of a token
  int members;   // ranks of the group
  int member;    // this rank's number among them
  int machines;
  int first;     // the first of the rank's experts
  int local;     // number of the rank's experts
  int segment;   // the largest number of tokens of a member
  int out;       // capacity for rows sent to other machines
  int come;      // capacity for rows received from them
  int pass;      // capacity for rows passed on
  int rows;      // of the zones
};

static inline int members_of_machine(constant passage_params& p) { return p.members / p.machines; }
static inline int own_machine(constant passage_params& p) { return p.member / members_of_machine(p); }
static inline int own_place(constant passage_params& p) { return p.member % members_of_machine(p); }

static inline int first_of(constant int* split, constant passage_params& p, int m) { return split[p.members + 1 + m]; }
static inline int tokens_of(constant int* split, constant passage_params& p, int m) { return split[2 * p.members + 1 + m] - first_of(split, p, m); }

// goes reports whether token t of a member has an expert of the members from `lo` to `hi`.
static inline bool goes(device const int* chosen, constant int* split, constant passage_params& p, int member, int t, int lo, int hi) {
  if (t >= tokens_of(split, p, member)) {
    return false;
  }
  device const int* pairs = chosen + (first_of(split, p, member) + t) * p.choices;
  for (int c = 0; c < p.choices; c++) {
    if (pairs[c] >= 0 && pairs[c] >= split[lo] && pairs[c] < split[hi]) {
      return true;
    }
  }
  return false;
}

// leaves, comes, passes and arrives are the flags: m is another machine, or this one for rows that do
// not leave it, and `to` and `from` are places in a machine.
static inline bool leaves(device const int* chosen, constant int* split, constant passage_params& p, int m, int t) {
  const int each = members_of_machine(p);
  return m != own_machine(p) && goes(chosen, split, p, p.member, t, m * each, (m + 1) * each);
}
static inline bool comes(device const int* chosen, constant int* split, constant passage_params& p, int m, int t) {
  const int each = members_of_machine(p), own = own_machine(p);
  return m != own && goes(chosen, split, p, m * each + own_place(p), t, own * each, (own + 1) * each);
}
static inline bool passes(device const int* chosen, constant int* split, constant passage_params& p, int to, int m, int t) {
  const int each = members_of_machine(p), member = own_machine(p) * each + to;
  return goes(chosen, split, p, m * each + own_place(p), t, member, member + 1);
}
static inline bool arrives(device const int* chosen, constant int* split, constant passage_params& p, int from, int m, int t) {
  return goes(chosen, split, p, m * members_of_machine(p) + from, t, p.member, p.member + 1);
}

// passage_flags writes flag i of each kind, and the local expert of each pair for this rank, -1 for
// others. It also marks all rows as unused.
kernel void passage_flags(device const int* chosen [[buffer(0)]],
                          device int* leaving [[buffer(1)]],
                          device int* coming [[buffer(2)]],
                          device int* passing [[buffer(3)]],
                          device int* arriving [[buffer(4)]],
                          device int* locals [[buffer(5)]],
                          device int* out [[buffer(6)]],
                          device int* pass [[buffer(7)]],
                          device int* home [[buffer(8)]],
                          device int* relay [[buffer(9)]],
                          device int* from [[buffer(10)]],
                          device int* choice [[buffer(11)]],
                          constant int* split [[buffer(12)]],
                          constant passage_params& p [[buffer(13)]],
                          uint at [[thread_position_in_grid]]) {
  const int i = int(at), t = i % p.segment, m = i / p.segment % p.machines, place = i / p.segment / p.machines;
  if (place < members_of_machine(p)) {
    passing[i] = passes(chosen, split, p, place, m, t) ? 1 : 0;
    arriving[i] = arrives(chosen, split, p, place, m, t) ? 1 : 0;
  }
  if (place == 0) {
    leaving[i] = leaves(chosen, split, p, m, t) ? 1 : 0;
    coming[i] = comes(chosen, split, p, m, t) ? 1 : 0;
  }
  if (i < p.out) {
    out[i] = -1;
  }
  if (i < p.pass) {
    pass[i] = -0x7fffffff - 1;
  }
  if (i < tokens_of(split, p, p.member) * p.choices) {
    home[i] = -1;
  }
  if (i < p.come * p.choices) {
    relay[i] = -1;
  }
  if (i < p.rows) {
    from[i] = -1;
    choice[i] = -1;
  }
  if (i < p.tokens * p.choices) {
    bool here = false;
    for (int g = 0; g < p.members; g++) {
      const int token = i / p.choices - first_of(split, p, g);
      here = here || (token >= 0 && token < tokens_of(split, p, g));
    }
    locals[i] = here ? owned<int>(chosen[i], p.first, p.local) : -1;
  }
}

// passage_scan replaces flags by the number of flags before each, and writes the total of a kind, using
// one simdgroup. p is the length and the kind.
kernel void passage_scan(device int* flags [[buffer(0)]],
                         device int* totals [[buffer(1)]],
                         constant int* p [[buffer(2)]],
                         uint lane [[thread_index_in_simdgroup]]) {
  const int sum = scan(flags, p[0], 0, lane);
  if (lane == 0) {
    totals[p[1]] = sum;
  }
}

// between_marks returns the number of flags in part i of several of the given length: before are the
// numbers of flags before each, and total is the number in all parts.
static inline int between_marks(device const int* before, int total, int i, int parts, int length) {
  return (i + 1 < parts ? before[(i + 1) * length] : total) - before[i * length];
}

// passage_rows writes the rows for flag i of each kind, given the number of flags before it, and the
// numbers of rows for each machine and member. totals are the totals of the four kinds.
kernel void passage_rows(device const int* chosen [[buffer(0)]],
                         device const int* leaving [[buffer(1)]],
                         device const int* coming [[buffer(2)]],
                         device const int* passing [[buffer(3)]],
                         device const int* arriving [[buffer(4)]],
                         device const int* totals [[buffer(5)]],
                         device int* out [[buffer(6)]],
                         device int* pass [[buffer(7)]],
                         device int* home [[buffer(8)]],
                         device int* relay [[buffer(9)]],
                         device int* between [[buffer(10)]],
                         device int* within [[buffer(11)]],
                         device int* sent [[buffer(12)]],
                         constant int* split [[buffer(13)]],
                         constant passage_params& p [[buffer(14)]],
                         uint at [[thread_position_in_grid]]) {
  const int each = members_of_machine(p), own = own_machine(p);
  const int i = int(at), t = i % p.segment, m = i / p.segment % p.machines, place = i / p.segment / p.machines;
  if (i < p.machines) {
    between[i] = between_marks(leaving, totals[0], i, p.machines, p.segment);
    between[p.machines + i] = between_marks(coming, totals[1], i, p.machines, p.segment);
  }
  if (i < each) {
    within[i] = between_marks(passing, totals[2], i, each, p.machines * p.segment);
    within[each + i] = between_marks(arriving, totals[3], i, each, p.machines * p.segment);
  }
  if (i < p.members) { // as arriving has them, which are the same together
    sent[i] = between_marks(arriving, totals[3], i, p.members, p.segment);
  }
  if (place >= each) {
    return;
  }
  const int source = m * each + own_place(p), flag = m * p.segment + t;
  device const int* pairs = chosen + (first_of(split, p, source) + t) * p.choices;
  if (passes(chosen, split, p, place, m, t)) {
    const int row = passing[i];
    pass[row] = m == own ? -1 - t : coming[flag];
    for (int c = 0; c < p.choices; c++) {
      if (pairs[c] < 0 || pairs[c] < split[own * each + place] || pairs[c] >= split[own * each + place + 1]) {
        continue;
      }
      if (m == own) {
        home[t * p.choices + c] = row;
      } else {
        relay[coming[flag] * p.choices + c] = row;
      }
    }
  }
  if (place == 0 && leaves(chosen, split, p, m, t)) {
    const int row = leaving[flag];
    out[row] = t;
    device const int* mine = chosen + (first_of(split, p, p.member) + t) * p.choices;
    for (int c = 0; c < p.choices; c++) {
      if (mine[c] >= 0 && mine[c] >= split[m * each] && mine[c] < split[(m + 1) * each]) {
        home[t * p.choices + c] = p.pass + row;
      }
    }
  }
}

// passage_zones writes, for pair i of the batch, its row of the zones, and the received row filling it.
// gaps and ordered are the same as in ep_journey.
kernel void passage_zones(device const int* locals [[buffer(0)]],
                          device const int* ordered [[buffer(1)]],
                          device const int* gaps [[buffer(2)]],
                          device const int* arriving [[buffer(3)]],
                          device int* from [[buffer(4)]],
                          device int* choice [[buffer(5)]],
                          constant int* split [[buffer(6)]],
                          constant passage_params& p [[buffer(7)]],
                          uint at [[thread_position_in_grid]]) {
  const int i = int(at), each = members_of_machine(p);
  if (i >= p.tokens * p.choices || locals[i] < 0 || gaps[p.local] > p.rows) {
    return;
  }
  for (int g = 0; g < p.members; g++) {
    const int t = i / p.choices - first_of(split, p, g);
    if (t >= 0 && t < tokens_of(split, p, g)) {
      const int row = ordered[i] + gaps[locals[i]];
      from[row] = arriving[(g % each * p.machines + g / each) * p.segment + t];
      choice[row] = i % p.choices;
    }
  }
}

// ep_pass copies row j passed on by a rank: row list[j] ≥ 0 of the received rows, or its own token -1 -
// list[j], with the weights of its choices. The list ends at the lowest number.
template <typename U>
kernel void ep_pass(device const U* values [[buffer(0)]],
                    device const U* weights [[buffer(1)]],
                    device const U* come [[buffer(2)]],
                    device const int* list [[buffer(3)]],
                    device U* wire [[buffer(4)]],
                    constant rows_params& p [[buffer(5)]],
                    uint2 at [[thread_position_in_grid]]) {
  const int j = int(at.y), column = int(at.x);
  if (j >= p.items || column >= row_columns<U>(p)) {
    return;
  }
  const int row = list[j];
  if (row == -0x7fffffff - 1) {
    return;
  }
  device U* to = wire + j * p.packed;
  if (row >= 0) {
    device const U* from = come + row * p.packed;
    copy_row<U>(to, to + p.values, from, from + p.values, column, p);
  } else {
    const int token = -1 - row;
    copy_row<U>(to, to + p.values, values + token * p.values, weights + token * p.weight, column, p);
  }
}

#define ep_pass_of(U, suffix) template [[host_name("ep_pass_" suffix)]] [[kernel]] decltype(ep_pass<U>) ep_pass<U>;

ep_pass_of(uchar, "1")
ep_pass_of(ushort, "2")
ep_pass_of(uint, "4")
ep_pass_of(uint4, "16")
