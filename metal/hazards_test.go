package metal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/mtl"
)

func TestHazards(t *testing.T) {
	a, b := new(mtl.Buffer), new(mtl.Buffer)
	none := []span(nil)
	for _, c := range []struct {
		reads, writes []span
		want          bool
	}{
		{none, none, false},
		{[]span{{a, 0, 4}}, none, false}, // reads what others read
		{[]span{{a, 8, 16}}, none, true},
		{[]span{{a, 15, 20}}, none, true},
		{[]span{{a, 16, 20}}, none, false}, // beside what is written
		{[]span{{a, 4, 8}}, none, false},
		{[]span{{b, 8, 16}}, none, false},
		{none, []span{{a, 0, 1}}, true}, // writes what others read
		{none, []span{{a, 12, 13}}, true},
		{none, []span{{a, 4, 8}}, false},
	} {
		h := hazards{}
		h.add([]span{{a, 0, 4}}, []span{{a, 8, 16}})
		require.Equal(t, c.want, h.meets(c.reads, c.writes), "%v %v", c.reads, c.writes)
		h.clear()
		require.False(t, h.meets(c.reads, c.writes))
	}
}
