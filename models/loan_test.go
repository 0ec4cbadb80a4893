package models

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
)

// byMatrix has the experts of a matrix follow each other, as gomoe writes them.
func byMatrix(ts []tensor.Source) []tensor.Source {
	key := func(s tensor.Source) (string, int) {
		before, after, ok := strings.Cut(s.Name, "experts.")
		number, matrix, _ := strings.Cut(after, ".")
		e, err := strconv.Atoi(number)
		if !ok || err != nil {
			return s.Name, 0
		}
		return before + matrix, e
	}
	slices.SortFunc(ts, func(a, b tensor.Source) int {
		x, i := key(a)
		y, j := key(b)
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(i, j))
	})
	return ts
}

// What is lent of a part are the bytes that would be copied. All rows of a matrix, and experts that follow each other, are
// lent; rows of matrices of experts are, one for each expert, also where experts lie between each other. Columns and matrices in
// another form are not.
func TestLoan(t *testing.T) {
	for _, test := range []struct {
		name    string
		path    string
		experts bool // several are lent
		slabs   bool // others are lent one for each expert
	}{
		{"as transformers writes it", "testdata/mixtral", false, true},
		{"by matrix", changed(t, "mixtral", byMatrix, nil), true, true},
		{"MLX's words", "testdata/mlx/mixtral", true, false}, // scales are numbers
		{"gate and up in one tensor", fusedModel(t), false, true},
		{"gate and up in columns of one tensor", "testdata/gpt_oss", false, false},
	} {
		c, err := checkpoint.Open(test.path)
		require.NoError(t, err)
		defer c.Close()
		m, err := Open(c)
		require.NoError(t, err)
		lent, slabs := map[bool]int{}, 0
		for _, p := range paramsOf(t, c, m) {
			w, err := Find(c, p)
			require.NoError(t, err)
			l := w.Loan(c)
			defer l.Back()
			shape := w.Type.Shape
			for d, n := range shape {
				half := max(1, n/2)
				for _, from := range []int{0, n - half} {
					box, start := slices.Clone(shape), make([]int, len(shape))
					if box[d], start[d] = half, from; w.Type.DType.IsBlock() && d == len(shape)-1 {
						continue
					}
					part := runtime.Part{Whole: w.Type, Start: start, Array: array.New(graph.Type{DType: w.Type.DType, Shape: box})}
					mem := l.Mem(part)
					if mem == nil {
						list := l.Slabs(part)
						if list == nil {
							continue
						}
						if d > 1 && half < n {
							t.Errorf("%s: %s: %s is lent, whose rows are not in one piece", test.name, p.Name, part)
						}
						if strings.HasSuffix(p.Name, "*.gate_proj.weight") || strings.HasSuffix(p.Name, "*.w1.weight") {
							slabs++
						}
						require.NoError(t, l.Fill(part))
						require.True(t, array.Equal(part.Array, array.InSlabs(part.Type, list).Dense()), "%s: %s: %s", test.name, p.Name, part)
						continue
					}
					if d > 0 && half < n {
						t.Errorf("%s: %s: %s is lent, which is not in one piece", test.name, p.Name, part)
					}
					lent[strings.Contains(p.Name, "*")]++
					require.NoError(t, l.Fill(part))
					require.Equal(t, part.Bytes(), mem, "%s: %s: %s", test.name, p.Name, part)
				}
			}
		}
		if lent[false] < 10 || (lent[true] > 5) != test.experts || (slabs > 0) != test.slabs {
			t.Errorf("%s: %d parts of experts are lent, %d expert by expert, and %d others", test.name, lent[true], slabs, lent[false])
		}
	}
}

// Of a matrix whose rows lie apart a part has its columns of each, of weights in blocks whole blocks.
func TestSlabsOfRows(t *testing.T) {
	for _, d := range []graph.DType{graph.F32, graph.Q4_0} {
		whole, box := graph.T(d, 2, 128), graph.T(d, 2, 64)
		rows := [][]byte{bytes.Repeat([]byte{1}, int(whole.Bytes())/2), bytes.Repeat([]byte{2}, int(whole.Bytes())/2)}
		rows[1][len(rows[1])/2] = 3 // where the second half begins
		w := &Weight{Type: whole, slab: func(i int) []byte { return rows[i] }}
		got := w.slabs(runtime.Part{Whole: whole, Start: []int{0, 64}, Array: array.Outline(box)})
		require.Equal(t, [][]byte{rows[0][len(rows[0])/2:], rows[1][len(rows[1])/2:]}, got, d)
	}
}

// An error is that of the first name, whatever else fails at the time, and what is there is returned with it.
func TestLendFails(t *testing.T) {
	c, m, _ := openTest(t, "mixtral")
	weights := map[string]*Weight{}
	for _, p := range paramsOf(t, c, m) {
		w, err := Find(c, p)
		require.NoError(t, err)
		weights[p.Name] = w
	}
	const one = "model.norm.weight"
	p, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
		return []*graph.Value{primitives.Neg(tr.Input(one, graph.F32, 16))}
	})
	require.NoError(t, err)
	job, err := gomoe.Open(t.Context(), p, gomoe.Config{})
	require.NoError(t, err)
	defer job.Close()
	for range 10 {
		in, err := Lend(job.Session, c, weights)
		require.ErrorContains(t, err, `p has no input "lm_head.weight"`)
		require.Len(t, in, 1)
		require.EqualValues(t, 64, in[one].Lent())
		job.Recycle(in[one])
	}
	in, err := Lend(job.Session, c, map[string]*Weight{one: weights[one]})
	require.NoError(t, err)
	require.Len(t, in, 1)
	in, err = Lend(job.Session, c, nil)
	require.NoError(t, err)
	require.Empty(t, in)
}
