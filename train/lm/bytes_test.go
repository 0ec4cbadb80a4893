package lm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/data"
	"github.com/gomoe/gomoe/data/text"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/runtime"
)

// A process gets the rows of its ranks: any box of a batch is that of the whole.
func TestBytesParts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("tokens go to experts, and come back. ", 40)), 0o644))
	c, err := text.Load(t.Context(), text.Options{Data: path, Seed: 3})
	require.NoError(t, err)
	b, err := NewBytes(c, 6, 10, false)
	require.NoError(t, err)
	whole, err := b.Step(7)
	require.NoError(t, err)
	parts, err := b.Parts(7)
	require.NoError(t, err)
	require.Len(t, parts, 3)
	for name, a := range whole {
		for _, box := range [][4]int{{0, 0, 6, 10}, {2, 0, 2, 10}, {5, 0, 1, 10}, {3, 4, 3, 5}, {0, 0, 0, 10}} {
			got, want := array.New(graph.T(a.Type.DType, box[2], box[3])), array.New(graph.T(a.Type.DType, box[2], box[3]))
			require.NoError(t, parts[name](runtime.Part{Whole: a.Type, Start: box[:2], Array: got}))
			array.CopyBox(want, nil, a, box[:2], box[2:])
			if !array.Equal(got, want) {
				t.Errorf("%s: the box %v is %v, want %v", name, box, got, want)
			}
		}
	}
	other := graph.T(graph.I32, 5, 10)
	require.ErrorContains(t, parts[data.Tokens](runtime.Part{Whole: other, Start: []int{0, 0}, Array: array.New(other)}), "tokens is i32[6,10], want i32[5,10]")
}
