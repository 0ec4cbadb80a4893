package sharding_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

func spec(t *testing.T, s string) sharding.Spec {
	t.Helper()
	p, err := sharding.ParseSpec(s)
	require.NoError(t, err)
	return p
}

func pending(s sharding.Spec, axes ...string) sharding.Spec {
	s.Pending = axes
	return s
}

func TestParseSpec(t *testing.T) {
	for text, want := range map[string]string{
		"": "_", "_": "_", "dp": "dp", "dp.ep": "dp.ep", "_,tp": "_,tp", " dp.ep , _,, tp ": "dp.ep,_,_,tp", "a,": "a,_", "{+dp}": "_{+dp}", "_,tp {+dp+ep} ": "_,tp{+dp+ep}", "dp.ep:even,_": "dp.ep:even,_",
	} {
		s := spec(t, text)
		if s.String() != want {
			t.Errorf("%q prints %q, want %q", text, s, want)
		}
		if again := spec(t, s.String()); !again.Equal(s) {
			t.Errorf("%q is read back as %q", s, again)
		}
		if !sharding.Split(splitText(s)...).Equal(s) {
			t.Errorf("Split of %q is another", s)
		}
	}
	for _, text := range []string{"dp.", ".", "dp ep", "1a", "a..b", "a._", "+a", ":even", "a:even:even", "a:odd", "a:machine"} {
		_, err := sharding.ParseSpec(text)
		require.ErrorContains(t, err, "is no axis name; write one entry per dimension, such as dp.ep,_", text)
	}
}

func TestParsePending(t *testing.T) {
	for text, want := range map[string]string{
		"{": "write the axes of pending sums at the end", "{dp}": "write the axes of pending sums at the end", "{+dp},_": "write the axes of pending sums at the end",
		"{+}": `"" is no axis name`, "a{+1}": `"1" is no axis name`, "{+a:even}": `"a:even" is no axis name`, "{+a++b}": `"" is no axis name`,
	} {
		_, err := sharding.ParseSpec(text)
		require.ErrorContains(t, err, want, text)
	}
	m := mesh(t, "a=2,b=2,c=1")
	s, err := spec(t, "{+b+a+c+d}").On(m).Check(m, graph.T(graph.F32, 4, 4))
	require.NoError(t, err)
	require.Equal(t, "_,_{+a+b}", s.String())
	_, err = spec(t, "a{+a}").Check(m, graph.T(graph.F32, 4))
	require.ErrorContains(t, err, "uses axis a twice")
	_, err = spec(t, "{+a}").Check(m, graph.T(graph.Bool, 4))
	require.ErrorContains(t, err, "arrays of bool have no pending sums; use a float or integer type")
}

func splitText(s sharding.Spec) []string {
	var out []string
	for i := range s.Dims {
		text := ""
		for j, a := range s.At(i) {
			if j > 0 {
				text += "."
			}
			text += a
		}
		out = append(out, text)
	}
	if len(s.Pending) > 0 {
		out = append(out, "{+"+strings.Join(s.Pending, "+")+"}")
	}
	return out
}

func TestSpecCheck(t *testing.T) {
	m := mesh(t, "dp=2,ep=4,one=1")
	f := graph.T(graph.F32, 16, 6)
	for _, c := range []struct {
		spec    sharding.Spec
		want    string // as Format prints it
		local   string
		problem string
	}{
		{spec: spec(t, ""), want: "f32[16,6]", local: "f32[16,6]"},
		{spec: spec(t, "dp"), want: "f32[16@dp,6]", local: "f32[8,6]"},
		{spec: spec(t, "dp.ep"), want: "f32[16@dp.ep,6]", local: "f32[2,6]"},
		{spec: spec(t, "ep.dp,_"), want: "f32[16@ep.dp,6]", local: "f32[2,6]"},
		{spec: spec(t, "ep,dp"), want: "f32[16@ep,6@dp]", local: "f32[4,3]"},
		{spec: spec(t, "one,one.dp"), problem: "the placement one,one.dp uses axis one twice, want it once"},
		{spec: spec(t, "one.dp,_,_"), want: "f32[16@dp,6]", local: "f32[8,6]"},
		{spec: pending(spec(t, ""), "ep", "dp", "one"), want: "f32[16,6]{+dp+ep}", local: "f32[16,6]"},
		{spec: pending(spec(t, "dp"), "ep"), want: "f32[16@dp,6]{+ep}", local: "f32[8,6]"},
		{spec: pending(spec(t, "dp"), "dp"), problem: "the placement f32[16@dp,6]{+dp} uses axis dp twice, want it once"},
		{spec: pending(spec(t, ""), "tp"), problem: `the mesh "dp=2,ep=4,one=1" has no axis tp`},
		{spec: spec(t, "tp"), problem: `the mesh "dp=2,ep=4,one=1" has no axis tp`},
		{spec: spec(t, "dp,dp"), problem: "the placement dp,dp uses axis dp twice, want it once"},
		{spec: spec(t, "_,ep"), want: "f32[16,6@ep]", local: "f32[16,2]"},
		{spec: spec(t, "_,_,dp"), problem: "the placement _,_,dp has 3 entries for f32[16,6], want at most 2"},
		{spec: sharding.Spec{Dims: [][]string{{"ep"}}, Ragged: &sharding.Ragged{Rows: 7}}, want: "f32[16@ep~,6]", local: "f32[7,6]"},
	} {
		s, err := c.spec.Check(m, f)
		if c.problem != "" {
			require.ErrorContains(t, err, c.problem)
			continue
		}
		require.NoError(t, err, c.want)
		if s.Format(f) != c.want || len(s.Dims) != 2 {
			t.Errorf("%s is %s with %d entries, want %s", c.spec.Format(f), s.Format(f), len(s.Dims), c.want)
		}
		if got := s.Local(m, f).String(); got != c.local {
			t.Errorf("%s: a rank holds %s, want %s", c.want, got, c.local)
		}
		if again, err := s.Check(m, f); err != nil || !again.Equal(s) {
			t.Errorf("%s changes when checked again: %s, %v", c.want, again.Format(f), err)
		}
	}
	ranges := mesh(t, "dp=2,ep=16:11/5")
	for text, want := range map[string]string{"dp:even.ep:even": "f32[16@dp.ep:even,6]", "ep": "f32[16@ep,6]", "_,ep:even": "f32[16,6@ep:even]"} {
		s, err := spec(t, text).Check(ranges, f)
		require.NoError(t, err)
		require.Equal(t, want, s.Format(f), "the mark stays where the axis has ranges")
	}
	for _, text := range []string{"ep,ep:even", "ep:even.ep", "ep:even{+ep}"} {
		_, err := spec(t, text).Check(ranges, f)
		require.ErrorContains(t, err, "uses axis ep twice, want it once", text)
	}
	require.Equal(t, []string{"dp", "ep:even", "tp"}, ranges.Evenly([]string{"dp", "ep", "tp"}))
	s, err := spec(t, "").Check(m, graph.T(graph.F32))
	require.NoError(t, err, "a scalar")
	require.True(t, s.Whole())
	s, err = spec(t, "dp.ep").Check(m, graph.T(graph.F32, 0))
	require.NoError(t, err)
	require.Equal(t, "f32[0]", s.Local(m, graph.T(graph.F32, 0)).String())
}

func TestFree(t *testing.T) {
	v := graph.T(graph.F32, 16, 8)
	r := &sharding.Ragged{Routing: &graph.Value{}, Rows: 8}
	other := &sharding.Ragged{Routing: &graph.Value{}, Rows: 8}
	split := &sharding.Ragged{Routing: r.Routing, Rows: 8, Tokens: []string{"a"}}
	ragged := func(r *sharding.Ragged) sharding.Spec { return sharding.Spec{Dims: [][]string{{"a"}}, Ragged: r} }
	for _, c := range []struct {
		from, to sharding.Spec
		problem  string
	}{
		{spec(t, ""), spec(t, ""), ""},
		{spec(t, ""), spec(t, "a.b,c"), ""},
		{spec(t, "a"), spec(t, "a.b"), ""},
		{pending(spec(t, ""), "a"), spec(t, ""), ""},
		{pending(spec(t, "b"), "a"), spec(t, "b,a"), ""},
		{pending(spec(t, ""), "a"), pending(spec(t, ""), "a"), ""},
		{ragged(r), ragged(r), ""},
		{spec(t, "a"), spec(t, ""), `f32[16@a,8] is needed as f32[16,8]: dimension 0 would have to move between ranks; say so with sharding_constraint spec="_"`},
		{spec(t, "a"), spec(t, "b.a"), `f32[16@a,8] is needed as f32[16@b.a,8]: dimension 0 would have to move between ranks; say so with sharding_constraint spec="b.a"`},
		{spec(t, "a.b"), spec(t, "a,b"), `f32[16@a.b,8] is needed as f32[16@a,8@b]: dimension 0 would have to move between ranks; say so with sharding_constraint spec="a,b"`},
		{spec(t, ""), pending(spec(t, ""), "a"), ""},
		{pending(spec(t, ""), "a", "b"), pending(spec(t, ""), "a"), ""},
		{spec(t, ""), ragged(r), "f32[16,8] is not in expert order but is used with ragged rows; dispatch it with ep_dispatch, or combine first"},
		{ragged(r), spec(t, "a"), "f32[16@a~,8] is in expert order and its number of rows is known only to the run; use row-wise primitives and grouped_matmul, or ep_combine first"},
		{sharding.Spec{Ragged: r}, ragged(r), "f32[16~,8] is needed as f32[16@a~,8]: rows in expert order stay where ep_dispatch put them; bring the tokens to one placement with sharding_constraint before they are dispatched"},
		{ragged(r), ragged(other), "f32[16@a~,8] and the other rows are in the order of different routings"},
		{ragged(r), ragged(split), `f32[16@a~,8] is needed as rows of tokens that are split over "a", and the rows are of tokens that are split over ""; bring the tokens to one placement with sharding_constraint before they are dispatched`},
	} {
		err := sharding.Free(c.from, c.to, v)
		if got := fmtErr(err); got != c.problem {
			t.Errorf("%s as %s:\n got %s\nwant %s", c.from.Format(v), c.to.Format(v), got, c.problem)
		}
	}
}

func fmtErr(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
