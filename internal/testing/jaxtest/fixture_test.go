package jaxtest

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// fixture is one file of testdata.
type fixture struct {
	Versions string
	Cases    []*example
}

// example is a program with JAX's results. Gradient has the gradients of the
// float inputs, in order, for the cotangents of the float results.
type example struct {
	Name      string
	Text      string
	In        map[string]tensor
	Out       []tensor
	Cotangent []tensor
	Gradient  []tensor
	// An element may differ from JAX's by Abs + Rel·|JAX's|. Where both are 0 the
	// bits must be equal, except those of a NaN.
	Rel, Abs         float64
	GradRel, GradAbs float64
	// Note says where our results and JAX's differ on purpose, and what the program
	// does about it.
	Note string
}

// tensor is an array as text: its type, as programs write it, and its elements
// in row-major order, separated by spaces.
type tensor struct {
	Type string
	Data string
}

func (x tensor) array(t *testing.T) array.Array {
	p, err := graph.Parse("fixture", "program p(x "+x.Type+") {\n return x\n}")
	require.NoError(t, err, x.Type)
	a := array.New(p.In[0].Type)
	words := strings.Fields(x.Data)
	require.Len(t, words, a.Type.Len(), x.Type)
	for i, w := range words {
		require.NoError(t, set(a, i, w), "%s, element %d", x.Type, i)
	}
	return a
}

// set sets element i of a to the number in word. Integers are not parsed as floats, nor
// f32 as f64.
func set(a array.Array, i int, word string) error {
	d := a.Type.DType
	if d.IsInt() {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return err
		}
		one, err := array.Of([]int64{n})
		if err != nil {
			return err
		}
		switch one = one.As(d); d {
		case graph.U8:
			array.Data[uint8](a)[i] = array.Data[uint8](one)[0]
		case graph.U32:
			array.Data[uint32](a)[i] = array.Data[uint32](one)[0]
		case graph.I32:
			array.Data[int32](a)[i] = array.Data[int32](one)[0]
		default:
			array.Data[int64](a)[i] = n
		}
		return nil
	}
	size := 64
	if d == graph.F32 {
		size = 32
	}
	x, err := strconv.ParseFloat(word, size)
	switch d {
	case graph.F64:
		array.Data[float64](a)[i] = x
	case graph.F32:
		array.Data[float32](a)[i] = float32(x)
	case graph.BF16:
		array.Data[array.Brain](a)[i] = array.BrainOf64(x)
	case graph.F16:
		array.Data[array.Half](a)[i] = array.HalfOf64(x)
	default:
		array.Data[bool](a)[i] = x != 0
	}
	return err
}

// fixtures reads testdata.
func fixtures(t *testing.T) map[string]fixture {
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	all := map[string]fixture{}
	for _, name := range files {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		var f fixture
		require.NoError(t, json.Unmarshal(b, &f), name)
		all[strings.TrimSuffix(filepath.Base(name), ".json")] = f
	}
	return all
}

// compare returns a description of what differs, or "" if nothing does.
func compare(got, want array.Array, rel, abs float64) string {
	if !got.Type.Equal(want.Type) {
		return fmt.Sprintf("%s, want %s", got.Type, want.Type)
	}
	if got.Type.DType == graph.I64 {
		for i, w := range array.Data[int64](want) {
			if g := array.Data[int64](got)[i]; g != w {
				return fmt.Sprintf("element %d is %d, want %d", i, g, w)
			}
		}
		return ""
	}
	var diffs []string
	g, w := got.Float64s(), want.Float64s()
	for i := range w {
		if !near(g[i], w[i], rel, abs) {
			diffs = append(diffs, fmt.Sprintf("element %d is %v, want %v", i, g[i], w[i]))
		}
	}
	if n := len(diffs); n > 6 {
		diffs = append(diffs[:6], fmt.Sprintf("and %d more", n-6))
	}
	return strings.Join(diffs, "; ")
}

func near(g, w, rel, abs float64) bool {
	switch {
	case math.IsNaN(g) || math.IsNaN(w):
		return math.IsNaN(g) && math.IsNaN(w)
	case g == w:
		return rel != 0 || abs != 0 || math.Signbit(g) == math.Signbit(w)
	case math.IsInf(g, 0) || math.IsInf(w, 0):
		return false
	}
	return math.Abs(g-w) <= abs+rel*math.Abs(w)
}
