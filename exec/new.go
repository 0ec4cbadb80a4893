package exec

// object is something that a rank's kernels use again and again.
type object struct {
	what any
	used bool // since Scratch.Reset
}

// New returns a zero W that is the kernel's until it returns, such as the Work that
// it shares: of a.Scratch, which makes one for all kernels of the rank, or a new one
// where that is nil. Pieces of Share do not call it.
func New[W any](a *Args) *W {
	w := NewDirty[W](a)
	var zero W
	*w = zero
	return w
}

// NewDirty is New with what another kernel has left in the place of zeros, such as
// slices to append to.
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
