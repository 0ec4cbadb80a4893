package exec

import (
	"slices"
	"testing"
)

// Memory is handed out zeroed and without overlap, new at first and from the
// second round on the same again.
func TestScratch(t *testing.T) {
	a := &Args{Scratch: new(Scratch)}
	round := func() (*int, *bool) {
		a.Scratch.Reset()
		x, y, z := Make[int](a, 5), Make[bool](a, 3), Make[float64](a, 7)
		if slices.Max(x) != 0 || slices.Contains(y, true) || slices.Max(z) != 0 {
			t.Fatalf("made %v %v %v, want zeros", x, y, z)
		}
		for i := range x {
			x[i] = -1
		}
		for i := range z {
			z[i] = 2
		}
		for i := range y {
			y[i] = true
		}
		if slices.Max(x) != -1 || slices.Min(z) != 2 {
			t.Fatalf("made memory overlaps: %v %v", x, z)
		}
		return &x[0], &y[0]
	}
	round()
	x, y := round()
	if x2, y2 := round(); x != x2 || y != y2 {
		t.Error("the third round has other memory than the second")
	}
	if n := testing.AllocsPerRun(10, func() { round() }); n != 0 {
		t.Errorf("a round allocates %v times, want 0", n)
	}
}

func TestScratchNone(t *testing.T) {
	if x := Make[int32](&Args{}, 4); len(x) != 4 {
		t.Errorf("%d elements, want 4", len(x))
	}
	if x := Make[int32](&Args{Scratch: new(Scratch)}, 0); len(x) != 0 {
		t.Errorf("%d elements, want 0", len(x))
	}
}
