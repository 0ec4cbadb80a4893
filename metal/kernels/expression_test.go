package kernels

import (
	"maps"
	"slices"
	"testing"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
)

// notMade are elementwise primitives without an expression, with the reason.
func notMade() map[string]string {
	return map[string]string{
		"stop_gradient": "is its argument by another name",
		// Shapes, not elements, though constant where their arguments are.
		"reshape":             "is its argument by another name",
		"sharding_constraint": "is lowered to moves and exchanges",
	}
}

// TestExpressions has an expression, or a reason for none, of every elementwise primitive,
// which is one that says so by being constant where its arguments are, or updates
// parameters; and a primitive for every expression.
func TestExpressions(t *testing.T) {
	table := map[string]expression{}
	for op, e := range expressions() {
		table[op.String()] = e
	}
	served := map[string]bool{}
	for _, k := range elementwise() {
		for _, name := range k.Primitives {
			served[name] = true
		}
	}
	names := map[string]bool{}
	pointwise := 0
	for _, p := range append(primitives.All(), graph.Structural()...) {
		names[p.Name()] = true
		_, made := table[p.Name()]
		_, not := notMade()[p.Name()]
		if made && not {
			t.Errorf("%s has an expression, and a reason for none", p.Name())
		}
		if _, ok := p.(sharding.Pointwise); !ok {
			continue
		}
		pointwise++
		if !made && !not && !served[p.Name()] {
			t.Errorf("elementwise primitive %s has no expression in Metal, and no reason for that", p.Name())
		}
	}
	if pointwise < 46 {
		t.Errorf("%d primitives are elementwise, want 46 or more", pointwise)
	}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if !names[name] {
			t.Errorf("expression of %s, which is no primitive", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(notMade())) {
		if !names[name] {
			t.Errorf("reason for no expression of %s, which is no primitive", name)
		}
	}
	for _, name := range []string{"adamw", "swiglu_grad", "add_any", "full"} { // elementwise, but with more results or fewer arguments
		if _, ok := table[name]; !ok {
			t.Errorf("no expression of %s", name)
		}
	}
}

// TestReduceSteps has the launches of reductions.
func TestReduceSteps(t *testing.T) {
	for _, c := range []struct {
		shape, axes []int
		anyOrder    bool
		want        []reduceStep
	}{
		{[]int{3, 4, 5}, []int{2}, false, []reduceStep{{12, 5, 1, 5}}},
		{[]int{3, 4, 5}, []int{1}, false, []reduceStep{{3, 4, 5, 4}}},
		{[]int{3, 4, 5}, []int{0, 2}, false, []reduceStep{{12, 5, 1, 5}, {1, 3, 4, 3}}},
		{[]int{3, 4, 5}, []int{0, 1, 2}, false, []reduceStep{{12, 5, 1, 5}, {3, 4, 1, 4}, {1, 3, 1, 3}}},
		{[]int{3, 4, 5}, []int{0, 1, 2}, true, []reduceStep{{1, 60, 1, 60}}},
		{[]int{3, 4, 5}, []int{0, 1}, true, []reduceStep{{1, 12, 5, 12}}},
		{[]int{2000, 1000}, []int{0, 1}, true, []reduceStep{{1, 2000000, 1, 512}, {1, 3907, 1, 512}, {1, 8, 1, 8}}},
		{[]int{2000, 1000}, []int{0, 1}, false, []reduceStep{{2000, 1000, 1, 1000}, {1, 2000, 1, 2000}}},
		{[]int{200, 3}, []int{0}, true, []reduceStep{{1, 200, 3, 64}, {1, 4, 3, 4}}},
		{[]int{0, 3}, []int{0}, true, []reduceStep{{1, 0, 3, 1}}},
	} {
		if got := reduceSteps(c.shape, c.axes, c.anyOrder); !slices.Equal(got, c.want) {
			t.Errorf("%v over %v, any order %v: got %+v, want %+v", c.shape, c.axes, c.anyOrder, got, c.want)
		}
	}
}
