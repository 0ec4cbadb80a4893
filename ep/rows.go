package ep

// A token's row is sent once to each member owning at least one of the token's experts.
// The functions below list the rows sent and received, and map received rows to the rows
// of a zone. They compute this from chosen int32[T,K], the expert of each kept pair, and
// -1 for all other pairs.

// Keep sets the elements of chosen to -1 for the pairs dropped by the capacity: their
// position in the queue of their expert is at least the capacity, which must be above 0.
// next int32[E] holds the positions from which the queues continue, all zeros for the
// first tokens of the batch; on return it holds the positions after chosen.
func Keep(chosen, next []int32, capacity int) {
	for i, e := range chosen {
		if e < 0 {
			continue
		}
		if int(next[e]) >= capacity {
			chosen[i] = -1
		}
		next[e]++
	}
}

// RowsOut sets order to the tokens with rows to send, given the pairs chosen int32[T,k]
// of a rank: the tokens for member 0, then for member 1, and so on, each part in token
// order. It sets rows[m] to the number of rows for member m, returning their sum, at most
// T·min(k, members). It sets home int32[T,k], which may be nil, to the index in order of
// the row that each pair shares with the token's other pairs for the same member, -1 for
// a pair that is not kept. scratch has two elements per member.
func (g Group) RowsOut(order, rows, home, chosen []int32, k int, scratch []int32) int {
	n := len(g.Sources)
	last, next := scratch[:n], scratch[n:2*n] // by member: the token seen last, the next place
	for m := range n {
		rows[m], last[m] = 0, -1
	}
	for i, e := range chosen {
		if e < 0 {
			continue
		}
		if m, t := g.Experts.Owner(int(e)), int32(i/k); last[m] != t {
			last[m] = t
			rows[m]++
		}
	}
	sum := int32(0)
	for m, r := range rows[:n] {
		next[m], last[m] = sum, -1
		sum += r
	}
	for i, e := range chosen {
		place := int32(-1)
		if e >= 0 {
			m, t := g.Experts.Owner(int(e)), int32(i/k)
			if last[m] != t {
				last[m] = t
				order[next[m]] = t
				next[m]++
			}
			place = next[m] - 1
		}
		if home != nil {
			home[i] = place
		}
	}
	return int(sum)
}

// Comes reports whether a row of a token is sent to member, given the token's choices,
// chosen.
func (g Group) Comes(chosen []int32, member int) bool {
	lo, hi := g.Experts.Part(member)
	for _, e := range chosen {
		if int(e) >= lo && int(e) < hi {
			return true
		}
	}
	return false
}

// RowsIn sets from[i] to j and choice[i] to c if row i of member's zones is filled by the
// j-th row that the member receives and belongs to choice c of that row's token. Rows
// arrive from members 0, 1, …, and from each member in the order of RowsOut. For rows
// without a pair, from and choice are -1. RowsIn sets rows[m] to the number of rows from
// member m, returning their sum.
//
// chosen int32[T,k] has the pairs of the whole batch, and tokens has a part for each
// source. On entry next holds the starts of the zones of member's experts (see Zones); on
// return it holds the ends of their rows.
func (g Group) RowsIn(from, choice, rows, chosen, next []int32, tokens Split, k, member int) int {
	for i := range from {
		from[i], choice[i] = -1, -1
	}
	lo, hi := g.Experts.Part(member)
	j := int32(0)
	for m, s := range g.Sources {
		first := j
		for t := tokens[s]; t < tokens[s+1]; t++ {
			travels := int32(0)
			for c, e := range chosen[t*k : (t+1)*k] {
				// A pair that is not kept, -1, is below every expert.
				if int(e) < lo || int(e) >= hi {
					continue
				}
				row := next[int(e)-lo]
				next[int(e)-lo] = row + 1
				from[row], choice[row] = j, int32(c)
				travels = 1
			}
			j += travels
		}
		rows[m] = j - first
	}
	return int(j)
}

// Slots sets slots int32[rows received,k] to the row of member's zones filled by each
// choice of a received row, -1 for choices of other members' experts. from and choice are
// the results of RowsIn.
func Slots(slots, from, choice []int32, k int) {
	for q := range slots {
		slots[q] = -1
	}
	for i, j := range from {
		if j >= 0 {
			slots[int(j)*k+int(choice[i])] = int32(i)
		}
	}
}
