package engine

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
)

func someHeads() []head {
	return []head{
		{claim: claim{call: collective.Call{Op: barrier}}},
		{claim: claim{
			call:  collective.Call{Op: allSum, Seq: 7, DType: graph.BF16, Bytes: 1 << 40, Pos: graph.Pos{File: "moe.go", Line: 12, Scope: "layers.3"}},
			bytes: math.MaxInt, root: none, to: 3, from: none, color: -5, key: math.MinInt,
		}, group: math.MaxUint64, ranks: []int{3, 0, 2}, located: true, at: []int64{0, math.MaxInt64}},
		{claim: claim{call: collective.Call{Op: allToAll, Seq: -1, Bytes: -1}, gives: []int{1, 0, 1 << 50}, takes: []int{0, 0, 9}}, ranks: []int{0, 1, 2}},
	}
}

func TestHeadRoundTrip(t *testing.T) {
	var got head // reused, as an operation does
	for _, h := range someHeads() {
		if err := got.decode(h.append(nil)); err != nil {
			t.Errorf("%+v: %v", h, err)
			continue
		}
		empty := func(ns []int) []int { return append([]int{}, ns...) }
		for _, x := range []*head{&h, &got} {
			x.ranks, x.claim.gives, x.claim.takes, x.at = empty(x.ranks), empty(x.claim.gives), empty(x.claim.takes), append([]int64{}, x.at...)
		}
		if !reflect.DeepEqual(h, got) {
			t.Errorf("got %+v, want %+v", got, h)
		}
	}
}

// Every operation has a number, which every head contains: the numbers must not change.
func TestOpNumbers(t *testing.T) {
	want := "all_sum all_max all_min all_gather all_gather_v reduce_scatter all_to_all broadcast barrier split send recv send_recv"
	for n, name := range strings.Fields(want) {
		if opName(byte(n)) != name || int(opNumber(name)) != n {
			t.Errorf("operation %d is %q, and %s has number %d", n, opName(byte(n)), name, opNumber(name))
		}
	}
	if opName(13) != "" {
		t.Errorf("operation 13 is %q, extend this test", opName(13))
	}
}

func TestNameText(t *testing.T) {
	for s, want := range map[string]string{
		"moe.go":                         "moe.go",
		"a\nb\x00.go":                    "a?b?.go",
		"\xff\xfe":                       "??",
		"schön.go":                       "schön.go",
		strings.Repeat("x", 200) + ".go": strings.Repeat("x", 97) + ".go",
	} {
		if got := nameText(s); got != want {
			t.Errorf("%q is %q, want %q", s, got, want)
		}
		if len(nameText(strings.Repeat("€", 99))) > maxName {
			t.Error("a name grows")
		}
	}
}

// No head makes a member panic, use much memory, or accept what it cannot use. A head that
// can be decoded is encoded to the same bytes, and a group compares it with its own head.
func FuzzHead(f *testing.F) {
	for _, h := range someHeads() {
		f.Add(h.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h, again head
		if h.decode(b) != nil {
			return
		}
		if len(h.ranks)+len(h.claim.gives)+len(h.claim.takes)+len(h.at) > len(b) {
			t.Fatalf("%d bytes decode to %d numbers", len(b), len(h.ranks)+len(h.claim.gives))
		}
		if len(h.claim.call.Pos.File) > maxName || len(h.claim.call.Pos.Scope) > maxName {
			t.Fatalf("a file name of %d bytes", len(h.claim.call.Pos.File))
		}
		if err := again.decode(h.append(nil)); err != nil {
			t.Fatalf("%+v does not decode again: %v", h, err)
		}
		if x, y := string(h.append(nil)), string(again.append(nil)); x != y {
			t.Fatalf("%q encodes as %q", x, y)
		}
		if h.claim.complete(2) != nil {
			return
		}
		mine := claim{call: h.claim.call}
		if mine.call.Op == allToAll {
			mine.gives, mine.takes = []int{0, 0}, []int{0, 0}
		}
		if mine.call.Op == allGatherV {
			mine.takes = []int{0, 0}
		}
		if mine.call.Op == sendRecv {
			mine.takes = []int{0}
		}
		for _, claims := range [][]claim{{mine, h.claim}, {h.claim, mine}} {
			if f := disagreement([]int{4, 6}, claims); f != nil && (len(f.blame) == 0 || f.text == "") {
				t.Fatalf("%+v blames nobody", f)
			}
			quarrel([]int{4, 6}, claims, 0, 1)
		}
		volume([]claim{mine, h.claim})
	})
}
