package ep

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/internal/quoted"
)

// Split divides consecutive items, such as the experts of a layer or the tokens of a
// batch, into parts: part i has the items from Split[i] up to, and without, Split[i+1]. A
// part may be empty. The first element is 0, the last is the number of items.
type Split []int

// EqualSplit splits n items into parts as evenly as possible: the first n mod parts of
// them have one item more than the others.
func EqualSplit(n, parts int) Split {
	s := make(Split, parts+1)
	for i := range s {
		s[i] = i*(n/parts) + min(i, n%parts)
	}
	return s
}

// Parts returns the number of parts.
func (s Split) Parts() int { return max(len(s)-1, 0) }

// Len returns the number of items.
func (s Split) Len() int {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1]
}

// Part returns the range of part i: [lo, hi).
func (s Split) Part(i int) (lo, hi int) { return s[i], s[i+1] }

// Size returns the number of items in part i.
func (s Split) Size(i int) int { return s[i+1] - s[i] }

// Largest returns the size of the largest part.
func (s Split) Largest() int {
	most := 0
	for i := range s.Parts() {
		most = max(most, s.Size(i))
	}
	return most
}

// Owner returns the part containing item x, which must be in range.
func (s Split) Owner(x int) int {
	lo, hi := 0, s.Parts()-1
	for lo < hi { // the first part ending after x
		if mid := (lo + hi) / 2; s[mid+1] > x {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// Validate returns an error unless s has a part and its parts are consecutive.
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

// String prints the parts in the form of ParseSplit, such as 0-1/2-3/4/none.
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
	return strings.Join(parts, "/")
}

// ParseSplit reads the parts of a split, separated by slashes: a range of first and last
// such as 0-95, one number, or none. The parts must be consecutive and begin at 0.
// Alternatively the text has the number of items and the share of each part, as in
// 128:64/24, for SplitByShares.
func ParseSplit(text string) (Split, error) {
	if things, shares, ok := strings.Cut(text, ":"); ok {
		return parseShares(text, things, shares)
	}
	s := Split{0}
	for _, part := range strings.Split(text, "/") {
		part = strings.TrimSpace(part)
		end := s.Len()
		if part != "none" {
			first, last, isRange := strings.Cut(part, "-")
			if !isRange {
				last = first
			}
			lo, err := strconv.Atoi(first)
			hi, err2 := strconv.Atoi(last)
			switch {
			case err != nil || err2 != nil || hi < lo:
				return nil, fmt.Errorf("ep: split %s: %s is no range, want first-last such as 0-95, one number, or none", quoted.Text(text), quoted.Text(part))
			case lo != s[len(s)-1]:
				return nil, fmt.Errorf("ep: split %s: %s does not begin at %d, where the part before ends", quoted.Text(text), quoted.Text(part), s[len(s)-1])
			case hi >= math.MaxInt32:
				return nil, fmt.Errorf("ep: split %s: %s ends behind %d", quoted.Text(text), quoted.Text(part), math.MaxInt32-1)
			}
			end = hi + 1
		}
		s = append(s, end)
	}
	if s.Len() == 0 {
		return nil, fmt.Errorf("ep: split %s has nothing in any part", quoted.Text(text))
	}
	return s, nil
}

// parseShares reads the number of items and the shares from the two halves of text.
func parseShares(text, things, shares string) (Split, error) {
	n, err := strconv.Atoi(strings.TrimSpace(things))
	if err != nil || n < 1 || n > math.MaxInt32 {
		return nil, fmt.Errorf("ep: split %s: %s is no number of things from 1 to %d, want it before the shares, such as 128:64/24", quoted.Text(text), quoted.Text(things), math.MaxInt32)
	}
	var each []float64
	for _, share := range strings.Split(shares, "/") {
		x, err := strconv.ParseFloat(strings.TrimSpace(share), 64)
		if err != nil {
			return nil, fmt.Errorf("ep: split %s: %s is no share, want a number such as the gigabytes of a rank", quoted.Text(text), quoted.Text(share))
		}
		each = append(each, x)
	}
	s, err := SplitByShares(n, each)
	if err != nil {
		return nil, fmt.Errorf("ep: split %s: %w", quoted.Text(text), err)
	}
	return s, nil
}

// SplitByShares splits n items into parts in proportion to shares, such as the ranks'
// memory or measured speed. A part differs from its proportion by less than one: it is
// rounded down, and the remaining items go one each to the parts furthest below their
// proportion, the first of equals. Shares are finite and at least 0, and one is above 0.
func SplitByShares(n int, shares []float64) (Split, error) {
	sum := 0.0
	for i, x := range shares {
		if !(x >= 0) || math.IsInf(x, 1) {
			return nil, fmt.Errorf("ep: share %d is %g, want a finite number of at least 0", i, x)
		}
		sum += x
	}
	if n < 0 || !(sum > 0) || math.IsInf(sum, 1) {
		return nil, fmt.Errorf("ep: %d things by %d shares with the sum %g, want at least 0 things and a finite sum above 0", n, len(shares), sum)
	}
	sizes, order, left := make([]int, len(shares)), make([]int, len(shares)), n
	rest := make([]float64, len(shares))
	for i, x := range shares {
		part := float64(float64(n) * (x / sum))
		sizes[i], order[i] = int(part), i
		rest[i] = part - float64(sizes[i])
		left -= sizes[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rest[b], rest[a]) })
	for _, i := range order[:min(max(left, 0), len(order))] {
		sizes[i]++
	}
	for _, i := range slices.Backward(order) { // rounding may give one too many
		if left < 0 && sizes[i] > 0 {
			sizes[i]--
			left++
		}
	}
	s := make(Split, len(shares)+1)
	for i, size := range sizes {
		s[i+1] = s[i] + size
	}
	return s, nil
}
