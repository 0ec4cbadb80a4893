package gomoe_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
)

// An array without memory is refused as an input, and the error names it.
func TestPutOutline(t *testing.T) {
	p, err := gomoe.Parse("p.graph", "program p(w f32[4]) {\n y = neg(w)\n return y\n}")
	require.NoError(t, err)
	job, err := gomoe.Open(t.Context(), p, gomoe.Config{})
	require.NoError(t, err)
	defer job.Close()
	_, err = job.Put("w", array.Outline(p.In[0].Type))
	require.ErrorContains(t, err, "input w of p: the array is an outline")
}
