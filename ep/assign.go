package ep

// Assign sets routing int32[T,K,2] to (expert, queue) for each of the tokens' pairs idx
// int32[T,K], and to (-1, -1) if the pair chooses no expert or is dropped. queue is the
// number of earlier pairs for the same expert; a pair is dropped if its queue reaches a
// capacity above 0.
//
// On entry next int32[E] holds, per expert, the pairs on lower ranks (see Before). On
// return it also counts the pairs of these tokens, including dropped ones, so that a
// batch can be assigned in pieces. Assign sets dropped bool[T,K], which may be nil, to
// the pairs that were dropped, returning their number. Count must have accepted idx.
func Assign(routing []int32, dropped []bool, next, idx []int32, capacity int) int {
	routing = routing[:2*len(idx)]
	drops := 0
	for i, e := range idx {
		expert, queue, drop := int32(-1), int32(-1), false
		if e >= 0 {
			q := next[e]
			next[e] = q + 1
			if drop = capacity > 0 && int(q) >= capacity; drop {
				drops++
			} else {
				expert, queue = e, q
			}
		}
		routing[2*i], routing[2*i+1] = expert, queue
		if dropped != nil {
			dropped[i] = drop
		}
	}
	return drops
}
