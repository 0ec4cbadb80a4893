package ep

// SendOrder sets order to the numbers t·K+k of the pairs that routing
// int32[T,K,2] keeps, in order of (expert, t, k), and returns how many there
// are, at most T·K. Members own ascending experts, so this is the order in
// which rows leave for members 0, 1, …, and in which they come back.
// Next int32[E] is scratch. It is a counting sort: O(T·K + E).
func SendOrder(order, next, routing []int32) int {
	clear(next)
	for i := 0; i < len(routing); i += 2 {
		if e := routing[i]; e >= 0 {
			next[e]++
		}
	}
	rows := int32(0)
	for e, n := range next {
		next[e] = rows
		rows += n
	}
	for i := 0; i < len(routing); i += 2 {
		if e := routing[i]; e >= 0 {
			order[next[e]] = int32(i / 2)
			next[e]++
		}
	}
	return int(rows)
}

// RecvOrder sets order[j] to the row, within member's zones, of the j-th row
// that member receives, and returns how many it receives. Rows arrive from
// members 0, 1, …, those of each in the order of SendOrder; in its zone a row
// comes after those of the same expert that arrived before, so a zone is in
// token order. Combine sends row order[j] back as its j-th.
//
// On entry next holds the starts of the zones of member's experts, see Zones;
// on return it holds the ends of their rows. Kept is the table after drops.
func (g Group) RecvOrder(order, next, kept []int32, member int) int {
	lo, hi := g.Local(member)
	j := 0
	for _, s := range g.Sources {
		for e, n := range kept[s*g.Experts+lo : s*g.Experts+hi] {
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

// Inverse sets inverse[order[j]] to j, and the other elements to -1. Of a
// SendOrder it is the place of every pair among the rows sent, and of those
// that come back; of a RecvOrder, which row received fills a row, -1 in
// padding. The elements of order are distinct.
func Inverse(inverse, order []int32) {
	for i := range inverse {
		inverse[i] = -1
	}
	for j, i := range order {
		inverse[i] = int32(j)
	}
}
