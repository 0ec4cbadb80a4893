package fuzzprog

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// refusals counts placements by the error that refused them.
type refusals map[string]int

func (r refusals) add(err error) {
	text := regexp.MustCompile(`^\S+: `).ReplaceAllString(err.Error(), "")
	text = regexp.MustCompile(`[0-9]+`).ReplaceAllString(text, "#")
	text = regexp.MustCompile(`(bool|[fiub]+#)\[[^\]]*\](\{[^}]*\})?`).ReplaceAllString(text, "T")
	text = regexp.MustCompile(`\b(a|b|dp|ep)(\.(a|b|dp|ep))*\b`).ReplaceAllString(text, "AXES")
	r[text]++
}

func (r refusals) log(t *testing.T, what string) {
	var lines []string
	for text, n := range r {
		lines = append(lines, fmt.Sprintf("%5d %s", n, text))
	}
	slices.Sort(lines)
	slices.Reverse(lines)
	t.Logf("%s:\n%s", what, strings.Join(lines, "\n"))
}

// tried is one placement of a program.
type tried struct {
	mesh  sharding.Mesh
	place map[string]sharding.Spec
}

func (c tried) String() string { return fmt.Sprintf("-mesh %s %s", c.mesh, format(c.place)) }

func (c tried) config() gomoe.Config {
	cfg := gomoe.Config{Mesh: c.mesh, Place: c.place, Check: true}
	cfg.Poison = true
	return cfg
}

// tries returns a few placements of p on every mesh.
func tries(t *testing.T, p *graph.Program, seed uint64) []tried {
	var out []tried
	for _, s := range Meshes() {
		m := mesh(t, s)
		for k := range uint64(3) {
			out = append(out, tried{m, Place(p, m, seed*7+k)})
		}
	}
	return out
}

// TestPlacements compares one rank with several.
func TestPlacements(t *testing.T) {
	t.Parallel()
	n := tally{why: refusals{}}
	eachSeed(t, n.placements)
	t.Logf("%d accepted, %d of them exact", n.accepted, n.exact)
	n.why.log(t, "refused")
}

// tally counts placements that were accepted, and why others were refused.
type tally struct {
	why             refusals
	accepted, exact int
}

// placements compares the program of the seed on one rank with several.
func (n *tally) placements(t *testing.T, seed uint64) {
	p := sample(t, seed)
	in := p.Inputs(p.Program, seed)
	want, err := run(p.Program, gomoe.Config{}, in)
	if err != nil {
		t.Errorf("seed %d: %v\n%s", seed, err, p)
		return
	}
	for _, c := range tries(t, p.Program, seed) {
		plan, got, err := planned(p.Program, c.config(), in)
		if plan == nil {
			if err := refused(err); err != nil {
				t.Errorf("seed %d: %s: %v\n%s", seed, c, err, p)
			}
			n.why.add(err)
			continue
		}
		n.accepted++
		tol := 0.0
		if sums(plan) {
			tol = 1e-10
		} else {
			n.exact++
		}
		if err == nil && tol > 0 && (p.Jumps || p.Chooses) {
			continue // a sum in another order may change what is rounded or chosen
		}
		if err == nil {
			err = differ(got, want, tol)
		}
		if err != nil {
			t.Errorf("seed %d: %s: %v\n%s\n%s", seed, c, err, p, plan)
			return
		}
	}
}

// back places the inputs of p's pullback: p's inputs as c does, and each cotangent as its
// result, or whole if whole is set.
func back(p, pull *graph.Program, c tried, whole bool) (tried, error) {
	if whole {
		return c, nil
	}
	a, err := gomoe.Place(context.Background(), p, c.config())
	if err != nil {
		return c, err
	}
	place := map[string]sharding.Spec{}
	for k, s := range c.place {
		place[k] = s
	}
	next := len(p.In)
	for i, v := range p.Out {
		if v.Type.DType.IsFloat() {
			place[pull.In[next].Name] = a.Out[i]
			next++
		}
	}
	return tried{c.mesh, place}, nil
}

// TestPullbacks places derivatives as their programs are placed.
func TestPullbacks(t *testing.T) {
	t.Parallel()
	n := tally{why: refusals{}}
	eachSeed(t, n.pullbacks)
	for text := range n.why {
		if *first == 1 && strings.Contains(text, "expert order") { // of other seeds some derivatives are refused
			t.Errorf("rows that the program has are refused in its derivative: %s", text) // -show finds the program
		}
	}
	t.Logf("%d accepted", n.accepted)
	n.why.log(t, "refused though the program is accepted")
}

// pullbacks compares the derivative of the seed's program on one rank with
// several.
func (n *tally) pullbacks(t *testing.T, seed uint64) {
	p := sample(t, seed)
	pull, err := vjp.Pullback(p.Program)
	require.NoError(t, err, "seed %d:\n%s", seed, p)
	in := p.Inputs(pull, seed)
	var want []array.Array
	all := append([]tried{{}}, tries(t, p.Program, seed)...)
	for i, c := range all {
		if _, err := gomoe.Compile(t.Context(), p.Program, c.config()); err != nil {
			continue
		}
		for _, whole := range []bool{false, true} {
			b, err := back(p.Program, pull, c, whole)
			require.NoError(t, err)
			plan, got, err := planned(pull, b.config(), in)
			if plan == nil {
				if r := refused(err); r != nil {
					t.Errorf("seed %d: %s: %v\n%s", seed, c, r, pull)
				}
				n.why.add(err)
				if testing.Verbose() && *show != "" && strings.Contains(err.Error(), *show) {
					q := Shrink(p.Program, func(q *graph.Program) bool { return refusedBack(q, c, whole, *show) })
					t.Fatalf("seed %d: %s whole=%v: %v\n%s", seed, c, whole, err, q)
				}
				continue
			}
			n.accepted++
			tol := 0.0
			if sums(plan) {
				tol = 1e-9
			}
			if i == 0 && err == nil {
				want = got
			}
			if want == nil && err == nil {
				break
			}
			if err == nil && tol > 0 && (p.Jumps || p.Chooses) {
				continue
			}
			if err == nil {
				err = differ(got, want, tol)
			}
			if err != nil {
				small := Shrink(p.Program, func(q *graph.Program) bool { return wrongBack(p, q, c, whole) })
				t.Errorf("seed %d: %s: %v\n%s\nsmaller:\n%s", seed, b, err, p, small)
				return
			}
		}
	}
}

// refusedBack reports whether q is accepted and its pullback refused with text.
func refusedBack(q *graph.Program, c tried, whole bool, text string) bool {
	pull, b, ok := pulled(q, c, whole)
	if !ok {
		return false
	}
	_, err := gomoe.Compile(context.Background(), pull, b.config())
	return err != nil && strings.Contains(err.Error(), text)
}

// pulled returns q's pullback and how it is placed, if q is accepted.
func pulled(q *graph.Program, c tried, whole bool) (pull *graph.Program, b tried, ok bool) {
	c = c.of(q)
	if _, err := gomoe.Compile(context.Background(), q, c.config()); err != nil {
		return nil, b, false
	}
	pull, err := vjp.Pullback(q)
	if err != nil {
		return nil, b, false
	}
	b, err = back(q, pull, c, whole)
	return pull, b, err == nil
}

// of returns c for a program with fewer inputs.
func (c tried) of(q *graph.Program) tried {
	place := map[string]sharding.Spec{}
	for k, s := range c.place {
		if v := q.Input(k); v != nil && v.Rank() == len(s.Dims) {
			place[k] = s
		}
	}
	return tried{c.mesh, place}
}

// wrongBack reports whether q's pullback fails or differs from one rank's.
func wrongBack(p Program, q *graph.Program, c tried, whole bool) bool {
	pull, b, ok := pulled(q, c, whole)
	if !ok {
		return false
	}
	if _, err := gomoe.Compile(context.Background(), pull, b.config()); err != nil {
		return false
	}
	in := p.Inputs(pull, 1)
	want, err := run(pull, gomoe.Config{}, in)
	if err != nil {
		return false
	}
	got, err := run(pull, b.config(), in)
	return err != nil || differ(got, want, 1e-9) != nil
}
