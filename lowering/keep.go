package lowering

// kept is something that a rank's kernels use again and again.
type kept struct {
	what any
	used bool // since Scratch.Reset
}

// Keep returns a zero W that is the kernel's until it returns, such as the Work that
// it shares: of a.Scratch, which makes one for all kernels of the rank, or a new one
// where that is nil. Pieces of Share do not call it.
func Keep[W any](a *Args) *W {
	s := a.Scratch
	if s == nil {
		return new(W)
	}
	for i := range s.kept {
		if w, ok := s.kept[i].what.(*W); ok && !s.kept[i].used {
			s.kept[i].used = true
			var zero W
			*w = zero
			return w
		}
	}
	w := new(W)
	s.kept = append(s.kept, kept{w, true})
	return w
}
