package exec

// object is a value reused by the kernels of a rank.
type object struct {
	what any
	used bool // since Scratch.Reset
}

// New returns a zero W that belongs to the kernel until it returns, such as the Work
// passed to Share. It comes from a.Scratch, which all kernels of the rank use; if
// a.Scratch is nil, New allocates. Pieces of Share must not call New.
func New[W any](a *Args) *W {
	w := NewDirty[W](a)
	var zero W
	*w = zero
	return w
}

// NewDirty is New without the zeroing: W keeps the contents left by the last kernel, such
// as slices to append to.
func NewDirty[W any](a *Args) *W {
	s := a.Scratch
	if s == nil {
		return new(W)
	}
	for i := range s.objects {
		if w, ok := s.objects[i].what.(*W); ok && !s.objects[i].used {
			s.objects[i].used = true
			return w
		}
	}
	w := new(W)
	s.objects = append(s.objects, object{w, true})
	return w
}
