package sharding_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/sharding"
)

// An axis whose size is * takes the ranks that the others leave.
func TestFitMesh(t *testing.T) {
	for _, c := range []struct {
		text  string
		ranks int
		want  string
	}{
		{"dp=*,ep=2", 8, "dp=4,ep=2"}, {"dp=*,ep=2", 2, "dp=1,ep=2"}, {"dp=*,ep=2", 0, "dp=1,ep=2"}, {"ep=*", 3, "ep=3"}, {" dp=2 , ep=* ", 6, "dp=2,ep=3"},
		{"dp=*,ep=2 order=0,2,1,3", 4, "dp=2,ep=2 order=0,2,1,3"}, {"dp=*,ep=0-2/3", 4, "dp=2,ep=0-2/3"}, {"dp=* blocks=8", 3, "dp=3 blocks=8"},
		{"dp=2,ep=2", 7, "dp=2,ep=2"}, {"", 5, ""}, // which have no free axis
	} {
		m, err := sharding.FitMesh(c.text, c.ranks)
		require.NoError(t, err, c.text)
		require.Equal(t, c.want, m.String())
	}
	for _, c := range []struct {
		text  string
		ranks int
		want  string
	}{
		{"dp=*,ep=2", 3, `sharding: mesh "dp=*,ep=2" of 3 ranks: the other axes have 2, want a multiple of that`},
		{"dp=*,ep=4", 2, `sharding: mesh "dp=*,ep=4" of 2 ranks: the other axes have 4, want a multiple of that`},
		{"dp=*,ep=*", 4, `sharding: mesh "dp=*,ep=*": want * as the size of one axis and nothing else, such as dp=*,ep=2`},
		{"dp=*4", 0, `sharding: mesh "dp=*4": want * as the size of one axis and nothing else, such as dp=*,ep=2`},
		{"dp=*/3-4", 2, `sharding: mesh "dp=*/3-4": want * as the size of one axis and nothing else, such as dp=*,ep=2`},
		{"dp=2 order=*", 2, `sharding: mesh "dp=2 order=*": want * as the size of one axis and nothing else, such as dp=*,ep=2`},
		{"dp=2 blocks=*", 2, `sharding: mesh "dp=2 blocks=*": want * as the size of one axis and nothing else, such as dp=*,ep=2`},
		{"dp=*,ep=2 order=1,0", 4, `sharding: order [1 0] of the 4 ranks of a mesh, want each of 0 to 3 once`},
	} {
		_, err := sharding.FitMesh(c.text, c.ranks)
		require.EqualError(t, err, c.want)
	}
}
