package kernel

import "testing"

// A dry run counts the most that was taken of each buffer, visits the first and the last
// piece of a range, and gives memory to nobody. A real run visits all pieces.
func TestDry(t *testing.T) {
	type space struct{ a, b []float64 }
	var d Dry
	s := Space[space](&d)
	for _, n := range []int{3, 10, 5} {
		if x := Take(&d, &s.a, n); len(x) > 0 || len(s.a) > 0 {
			t.Fatalf("a dry run took %d elements, want none", len(x))
		}
	}
	Take(&d, &Space[space](&d).b, 2)
	got := d.Taken()
	if got[&s.a] != 80 || got[&s.b] != 16 || len(got) != 3 {
		t.Errorf("counted %v, want 80 and 16 bytes of two buffers, and what holds them", got)
	}
	if left := d.Taken(); len(left) > 0 {
		t.Errorf("%v was taken since, want nothing", left)
	}
	for _, c := range []struct{ end, dry, all int }{{0, 0, 0}, {5, 1, 1}, {10, 1, 1}, {11, 2, 2}, {95, 2, 10}, {100, 2, 10}} {
		visit := func(d *Dry) (n, last int) {
			for at := 0; at < c.end; at = d.Next(at, 10, c.end) {
				n, last = n+1, c.end-at
			}
			return n, last
		}
		n, last := visit(&d)
		all, end := visit(nil)
		if n != c.dry || all != c.all || last != end {
			t.Errorf("%d: visited %d pieces in a dry run and %d in a real one, the last of %d and %d", c.end, n, all, last, end)
		}
	}
}
