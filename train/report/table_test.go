package report

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExperts(t *testing.T) {
	wide := make([]int64, 32)
	for e := range wide {
		wide[e] = int64(e + 100)
	}
	for e := range 10 {
		wide[3*e] = 0
	}
	for _, test := range []struct {
		name   string
		tokens [][]int64
		want   string
	}{
		{"few", [][]int64{{10, 20, 30, 40}, {0, 99, 1, 0}, {0, 0, 0, 0}}, `
  layer  tokens  e0  e1  e2  e3  max/mean  dead
      0     100  10  20  30  40      1.60  0
      1     100   0  99   1   0      3.96  2: e0 e3
      2       0   0   0   0   0         -  4: e0 e1 e2 e3
`},
		{"many", [][]int64{wide}, `
  layer  tokens  least  median  most  max/mean  dead
      0    2561      0     110   131      1.64  10: e0 e3 e6 e9 e12 e15 e18 e21 ...
`},
		{"none", nil, "no experts\n"},
		{"no expert", [][]int64{{}}, "no experts\n"},
	} {
		var out bytes.Buffer
		require.NoError(t, Experts(&out, test.tokens), test.name)
		t.Run(test.name, func(t *testing.T) { wantLines(t, out.String(), test.want) })
	}
	var out bytes.Buffer
	err := Experts(&out, [][]int64{{1, 2}, {1}})
	if err == nil || !strings.Contains(err.Error(), "layer 1 has 1 experts, want 2") {
		t.Errorf("layers that differ: error %v", err)
	}
	why := errors.New("closed")
	for _, tokens := range [][][]int64{nil, {{1}}} {
		if err := Experts(brokenWriter{why}, tokens); !errors.Is(err, why) {
			t.Errorf("%v: error %v, want %v", tokens, err, why)
		}
	}
}
