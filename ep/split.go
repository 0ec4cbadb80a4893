package ep

import (
	"fmt"
	"strconv"
	"strings"
)

// Split says which of consecutive things, such as the experts of a layer or the tokens of
// a batch, each of several parts has: part i has those from Split[i] up to, and without,
// Split[i+1]. A part may be empty. The first element is 0, the last is the number of things.
type Split []int

// EqualSplit splits n things into parts that are as equal as can be: the first n mod parts
// of them have one more than the others.
func EqualSplit(n, parts int) Split {
	s := make(Split, parts+1)
	for i := range s {
		s[i] = i*(n/parts) + min(i, n%parts)
	}
	return s
}

// Parts returns the number of parts.
func (s Split) Parts() int { return max(len(s)-1, 0) }

// Len returns how many things are split.
func (s Split) Len() int {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1]
}

// Part returns what part i has: [lo, hi).
func (s Split) Part(i int) (lo, hi int) { return s[i], s[i+1] }

// Size returns how many things part i has.
func (s Split) Size(i int) int { return s[i+1] - s[i] }

// Largest returns how many things the largest part has.
func (s Split) Largest() int {
	most := 0
	for i := range s.Parts() {
		most = max(most, s.Size(i))
	}
	return most
}

// Owner returns the part that has thing x, which is one of those that are split.
func (s Split) Owner(x int) int {
	lo, hi := 0, s.Parts()-1
	for lo < hi { // the first part that ends behind x
		if mid := (lo + hi) / 2; s[mid+1] > x {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// Validate returns an error unless s has a part and its parts lie one behind another.
func (s Split) Validate() error {
	if len(s) < 2 || s[0] != 0 {
		return fmt.Errorf("ep: split %v, want 0 and then the end of each part", []int(s))
	}
	for i := range s.Parts() {
		if s[i+1] < s[i] {
			return fmt.Errorf("ep: split %v: part %d ends before it begins; want ascending numbers", []int(s), i)
		}
	}
	return nil
}

// String prints the parts as ranges of first and last, such as 0-1,2-3,4,none.
func (s Split) String() string {
	parts := make([]string, s.Parts())
	for i := range parts {
		switch lo, hi := s.Part(i); hi - lo {
		case 0:
			parts[i] = "none"
		case 1:
			parts[i] = strconv.Itoa(lo)
		default:
			parts[i] = fmt.Sprintf("%d-%d", lo, hi-1)
		}
	}
	return strings.Join(parts, ",")
}
