package kernel

import "maps"

// Need is the memory in bytes that products and attention keep on each thread that
// works on them, by buffer. Each is as long as the longest that a call has asked for.
type Need map[string]int64

// And adds what another call needs.
func (n Need) And(others ...Need) Need {
	all := maps.Clone(n)
	if all == nil {
		all = Need{}
	}
	for _, o := range others {
		for buf, bytes := range o {
			all[buf] = max(all[buf], bytes)
		}
	}
	return all
}

// Bytes returns the sum.
func (n Need) Bytes() int64 {
	var sum int64
	for _, bytes := range n {
		sum += bytes
	}
	return sum
}
