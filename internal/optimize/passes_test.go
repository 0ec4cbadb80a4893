package optimize

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

func parse(t *testing.T, src string) *graph.Program {
	t.Helper()
	p, err := graph.Parse("p.graph", src, primitives.All()...)
	require.NoError(t, err)
	return p
}

// rewrites is a program before and after a pass. Where both texts are the same,
// the pass has nothing to do.
type rewrites struct{ name, before, after string }

// golden runs one pass on the programs' bodies; the header is common to them.
func golden(t *testing.T, run func(*graph.Program) (*graph.Program, error), cases []rewrites) {
	t.Helper()
	const header = "program p(x f32[2,3], y f32[2,3], n i32[2,3], h bf16[2,3], s f32[]) {\n"
	body := func(s string) string {
		var b strings.Builder
		b.WriteString(header)
		for line := range strings.Lines(strings.TrimSpace(s)) {
			b.WriteString("\t" + strings.TrimSpace(line) + "\n")
		}
		b.WriteString("}\n")
		return b.String()
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := parse(t, body(c.before))
			text := p.Print(graph.PrintOptions{Pos: true})
			q, err := run(p)
			require.NoError(t, err)
			require.NoError(t, graph.Check(q))
			if got, want := q.String(), body(c.after); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if got := p.Print(graph.PrintOptions{Pos: true}); got != text {
				t.Errorf("the pass changed its argument to\n%s\nfrom\n%s", got, text)
			}
		})
	}
}

func TestOrder(t *testing.T) {
	var names []string
	for _, p := range Passes() {
		names = append(names, p.Name)
	}
	for _, c := range Constraints() {
		first, then := slices.Index(names, c.First), slices.Index(names, c.Then)
		if first < 0 || then < 0 {
			t.Errorf("a constraint names %s and %s; passes are %v", c.First, c.Then, names)
		} else if first > then {
			t.Errorf("%s runs behind %s, but %s", c.First, c.Then, c.Why)
		}
	}
}

func TestProgram(t *testing.T) {
	golden(t, func(p *graph.Program) (*graph.Program, error) { return Program(t.Context(), p) }, []rewrites{{
		"each pass after the other", `
			two f32[] = full() value=2 dtype=f32
			half f32[] = full() value=0.5 dtype=f32
			a f32[] = mul(two, half)
			b f32[2,3] = broadcast_in_dim(a) shape=[2,3]
			c f32[2,3] = mul(x, b)
			d f32[2,3] = exp(c)
			e f32[2,3] = exp(x)
			f f32[2,3] = add(d, e)
			return f`, `
			d f32[2,3] = exp(x)
			f f32[2,3] = add(d, d)
			return f`,
	}})
}

func TestPositions(t *testing.T) {
	p := parse(t, "program p(x f32[2]) {\n\ta f32[2] = exp(x)\n\tb f32[2] = neg(a)\n\tc f32[2] = exp(x)\n\td f32[2] = neg(c)\n\te f32[2] = add(b, d)\n\treturn e\n}\n")
	q, err := Program(t.Context(), p)
	require.NoError(t, err)
	var lines []int
	for _, e := range q.Eqns {
		lines = append(lines, e.Pos.Line)
	}
	require.Equal(t, []int{2, 3, 6}, lines, "merged equations are at the line of the first")
}
