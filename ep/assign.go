package ep

// Assign sets routing int32[T,K,2] to (expert, queue) of each of the tokens'
// pairs idx int32[T,K], and (-1, -1) where the pair chooses no expert or is
// dropped: queue is the number of pairs for the expert before this one, and a
// pair whose queue reaches a capacity above 0 is dropped.
//
// On entry next int32[E] holds the pairs on lower ranks, see Before; on
// return it holds those up to and with these tokens, dropped ones too, so
// that a batch can be assigned in pieces. Dropped bool[T,K] is set to which
// pairs were dropped; it may be nil. Assign returns how many were. Count
// must have accepted idx.
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
