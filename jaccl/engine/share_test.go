package engine

import "testing"

// Every element is summed by exactly one member.
func TestSegments(t *testing.T) {
	for n := range 1000 {
		for size := 1; size <= 9; size++ {
			at := 0
			for i := range size {
				lo, hi := segment(n, i, size)
				if lo != at || hi < lo || hi != n && hi%64 != 0 {
					t.Fatalf("%d bytes, member %d of %d: segment %d to %d, want it to start at %d and to hold whole lines", n, i, size, lo, hi, at)
				}
				at = hi
			}
			if at != n {
				t.Fatalf("%d bytes among %d: segments end at %d", n, size, at)
			}
		}
	}
}
