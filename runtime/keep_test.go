package runtime

import (
	"errors"
	"testing"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
)

// A copy is made in the second of consecutive steps with the same contents. It is used
// until the contents change or are not known any more. If it cannot be made, it is not used.
func TestKeep(t *testing.T) {
	made, fails := 0, false
	in := &lowering.Instr{Op: ops.Keep, In: []int{0}, Out: []int{1}, Host: lowering.Host{Keeps: true, Kernel: func(a *exec.Args) error {
		if fails {
			return errors.New("no copy")
		}
		made++
		array.Data[uint8](a.Out[0])[0] = uint8(made)
		return nil
	}}}
	p := &lowering.Plan{Bufs: []lowering.Buffer{{Storage: lowering.Input}, {Storage: lowering.Kept}}}
	r := &rank{plan: p, bufs: make([]array.Array, 2), kept: make([]kept, 2), contents: make([]contents, 2)}
	r.kept[1].mem = array.New(graph.T(graph.U8, 1))
	none, x := contents{}, contents{}.next()
	y := x.next() // as the next result of a session
	for i, step := range []struct {
		of    contents
		fails bool
		made  int // how many copies have been made so far
		there bool
	}{
		{x, false, 0, false}, {x, false, 1, true}, {x, false, 1, true},
		{y, false, 1, false}, {x, false, 1, false}, {x, false, 2, true},
		{none, false, 2, false}, {none, false, 2, false}, {x, false, 2, false},
		{x, true, 2, false}, {x, false, 3, true}, {x, false, 3, true}, {y, false, 3, false}, {y, false, 4, true},
	} {
		fails, r.contents[0] = step.fails, step.of
		err := r.keep(in, &exec.Args{In: []array.Array{{}}, Out: []array.Array{{}}})
		if (err != nil) != step.fails {
			t.Fatalf("step %d: error %v", i, err)
		}
		if there := len(r.bufs[1].Bytes()) > 0; made != step.made || there != step.there {
			t.Fatalf("step %d: copied %d times, there %v; want %d, %v", i, made, there, step.made, step.there)
		}
	}
}

// Arrays with equal elements have different contents. An array has none once the caller
// has a part of it.
func TestContents(t *testing.T) {
	none := contents{}
	a := &Array{as: none.next(), parts: make([]piece, 1)}
	b := &Array{as: none.next(), parts: make([]piece, 1)}
	if a.contents() == none || a.contents() != a.contents() || a.contents() == b.contents() {
		t.Errorf("contents %v, %v, then %v", a.contents(), b.contents(), a.contents())
	}
	if next := a.as.next(); next == a.as || next == none {
		t.Errorf("contents %v, and those that come after them %v", a.as, next)
	}
	if _, err := a.Parts(); err != nil {
		t.Fatal(err)
	}
	if a.contents() != none || b.contents() == none {
		t.Errorf("contents %v of an array that was lent, and %v of another", a.contents(), b.contents())
	}
}
