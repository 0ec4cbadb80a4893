package ep

import (
	"fmt"
	"math"
)

// Layer is the part of a layer's routing that is the same in every step. It
// does not know the mesh.
type Layer struct {
	Experts  int // E, 1 to MaxExperts
	Capacity int // C, pairs that an expert accepts over the whole batch; 0 means no limit
	Align    int // zones start at multiples of this number of rows; 0 and 1 mean no alignment
}

// MaxExperts is the largest number of experts of a layer. Plans and ranks hold tables of all
// experts; they would take gigabytes beyond it.
const MaxExperts = 1 << 24

// Validate returns an error for impossible sizes.
func (l Layer) Validate() error {
	switch {
	case l.Experts < 1:
		return fmt.Errorf("ep: layer: %d experts, want at least 1", l.Experts)
	case l.Experts > MaxExperts:
		return fmt.Errorf("ep: layer: %d experts, want at most %d", l.Experts, MaxExperts)
	case l.Capacity < 0:
		return fmt.Errorf("ep: layer: capacity %d, want 0 for no limit or the number of pairs an expert accepts", l.Capacity)
	case l.Align < 0:
		return fmt.Errorf("ep: layer: alignment %d, want 0 for none or a number of rows", l.Align)
	case l.Align > math.MaxInt32:
		return fmt.Errorf("ep: layer: alignment %d, want at most %d", l.Align, math.MaxInt32)
	}
	return nil
}

// Check returns an error if a batch of tokens × k choices cannot be routed: the
// layer is not valid, a size is negative, or the number of a pair or a row does
// not fit int32.
func (l Layer) Check(tokens, k int) error {
	if err := l.Validate(); err != nil {
		return err
	}
	if tokens < 0 || k < 1 {
		return fmt.Errorf("ep: routing of %d tokens × %d choices, want at least 0 tokens and 1 choice", tokens, k)
	}
	pairs := mul(tokens, k)
	if pairs > math.MaxInt32 {
		return fmt.Errorf("ep: routing of %d tokens × %d choices: more than %d pairs; split the batch", tokens, k, math.MaxInt32)
	}
	if l.Rows(pairs) > math.MaxInt32 {
		return fmt.Errorf("ep: routing of %d tokens × %d choices to %d experts aligned to %d: more than %d rows; split the batch or align less",
			tokens, k, l.Experts, l.align(), math.MaxInt32)
	}
	return nil
}

// Rows returns an upper bound on the rows for the pairs of a batch if one rank has all
// experts. It is RankRows(pairs, Experts).
func (l Layer) Rows(pairs int) int { return l.RankRows(pairs, l.Experts) }

// RankRows returns an upper bound on the rows, alignment included, of a rank that owns
// the given number of experts and receives at most the given number of pairs. The bound
// is tight: with A = Align and m = min(pairs, experts), m zones hold one pair each in A
// rows each, and every further A rows take A further pairs, up to the capacity:
//
//	A · min(m + ⌊(pairs-m)/A⌋, experts·⌈C/A⌉)
//
// The result grows with pairs and experts. It is math.MaxInt if it would overflow.
// Without alignment it is min(pairs, experts·C).
func (l Layer) RankRows(pairs, experts int) int {
	if pairs <= 0 || experts <= 0 {
		return 0
	}
	a := l.align()
	m := min(pairs, experts)
	blocks := m + (pairs-m)/a // at most pairs
	if l.Capacity > 0 {
		blocks = min(blocks, mul(experts, (l.Capacity-1)/a+1))
	}
	return mul(blocks, a)
}

// Fits returns an *OverflowError if an expert's demand, in pairs over the whole
// batch, exceeds the capacity. A layer that must not drop pairs calls it. Every
// rank that sees the same table returns the same error.
func (l Layer) Fits(demand []int32) error {
	expert, need, over := Overflow(demand, l.Capacity)
	if !over {
		return nil
	}
	return &OverflowError{Expert: expert, Need: need, Capacity: l.Capacity}
}

// OverflowError reports that the batch has more pairs for an expert than the expert
// accepts.
type OverflowError struct {
	Expert   int // the expert in highest demand
	Need     int // its pairs
	Capacity int
}

func (e *OverflowError) Error() string {
	return fmt.Sprintf("ep: expert %d: %d pairs, want at most its capacity %d; raise the capacity to %d, or drop the pairs that do not fit",
		e.Expert, e.Need, e.Capacity, e.Need)
}

func (l Layer) align() int { return max(l.Align, 1) }

// mul returns a·b, at most math.MaxInt. a and b must not be negative.
func mul(a, b int) int {
	if a != 0 && b > math.MaxInt/a {
		return math.MaxInt
	}
	return a * b
}
