package kernel

import "maps"

// Need is the memory in bytes, by buffer, that products and attention keep for each thread
// that works on them. A buffer is as long as the longest that a call has asked for.
type Need map[string]int64

// And returns what n and the others need together: of each buffer the longest.
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

// Bytes returns the sum over the buffers.
func (n Need) Bytes() int64 {
	var sum int64
	for _, bytes := range n {
		sum += bytes
	}
	return sum
}
