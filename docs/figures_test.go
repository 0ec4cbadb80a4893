package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFigures checks that every row of performance.md's tables has its figures, in order, in a
// row of bench/RESULTS.md.
func TestFigures(t *testing.T) {
	figure := regexp.MustCompile(`\d+(\.\d+)*`)
	rows := func(path string) [][]string {
		src, err := os.ReadFile(path)
		require.NoError(t, err)
		var out [][]string
		for l := range strings.Lines(string(src)) {
			if cells := strings.SplitN(l, "|", 3); len(cells) == 3 && cells[0] == "" {
				out = append(out, figure.FindAllString(cells[2], -1))
			}
		}
		require.NotEmpty(t, out, path)
		return out
	}
	all := rows("../bench/RESULTS.md")
	for _, r := range rows("performance.md") {
		if !within(r, all) {
			t.Errorf("performance.md has a row with %s, and bench/RESULTS.md has none", strings.Join(r, ", "))
		}
	}
}

// within reports whether one of the rows has all these figures, in their order.
func within(figures []string, rows [][]string) bool {
	for _, r := range rows {
		left := figures
		for _, f := range r {
			if len(left) > 0 && left[0] == f {
				left = left[1:]
			}
		}
		if len(left) == 0 {
			return true
		}
	}
	return false
}
