package ep

// SendOrder sets order to the numbers t·K+k of the pairs that routing int32[T,K,2] keeps
// for experts first to first+n-1, in order of (expert, t, k), returning their number, at
// most T·K. With all experts, this is the order of sending rows to members 0, 1, … and of
// their return, because members own ascending experts. next int32[n] is scratch memory.
// SendOrder is a counting sort: O(T·K + n).
func SendOrder(order, next, routing []int32, first int) int {
	clear(next)
	for i := 0; i < len(routing); i += 2 {
		if e := int(routing[i]) - first; e >= 0 && e < len(next) {
			next[e]++
		}
	}
	rows := int32(0)
	for e, n := range next {
		next[e] = rows
		rows += n
	}
	for i := 0; i < len(routing); i += 2 {
		if e := int(routing[i]) - first; e >= 0 && e < len(next) {
			order[next[e]] = int32(i / 2)
			next[e]++
		}
	}
	return int(rows)
}

// RecvOrder sets order[j] to the row, within member's zones, of the j-th row that member
// receives, returning the number of rows received. Rows arrive from members 0, 1, …, and
// from each member in the order of SendOrder. Within its zone, a row is placed after the
// rows of the same expert that arrived before it, so a zone is in token order. Combine
// sends row order[j] back as the j-th row.
//
// On entry next holds the starts of the zones of member's experts (see Zones); on return
// it holds the ends of their rows. kept is the table after drops.
func (g Group) RecvOrder(order, next, kept []int32, member int) int {
	lo, hi := g.Experts.Part(member)
	j, experts := 0, g.Experts.Len()
	for _, s := range g.Sources {
		for e, n := range kept[s*experts+lo : s*experts+hi] {
			row := next[e]
			for range n {
				order[j] = row
				row++
				j++
			}
			next[e] = row
		}
	}
	return j
}

// Inverse sets inverse[order[j]] to j, and all other elements to -1. The inverse of a
// SendOrder gives, for every pair, its position among the rows sent, which is also its
// position among the rows that return. The inverse of a RecvOrder gives, for every row,
// the received row filling it, and -1 for padding. The elements of order must be
// distinct.
func Inverse(inverse, order []int32) {
	for i := range inverse {
		inverse[i] = -1
	}
	for j, i := range order {
		inverse[i] = int32(j)
	}
}

// Order composes position, the inverse of a SendOrder, with order, a RecvOrder, for rows staying on their rank. It sets
// pairRow[pair] to the pair's row of the zones, from[row] to the row's token, and choice[row] to the number of its pair
// among the token's k choices. Other elements are -1.
func Order(pairRow, from, choice, position, order []int32, k int) {
	for i := range from {
		from[i], choice[i] = -1, -1
	}
	for pair, j := range position {
		if pairRow[pair] = j; j >= 0 {
			row := order[j]
			pairRow[pair], from[row], choice[row] = row, int32(pair/k), int32(pair%k)
		}
	}
}
