package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFigures checks that every row of the tables of speed in performance.md has its figures,
// in order, in a row of bench/RESULTS.md.
func TestFigures(t *testing.T) {
	figure := regexp.MustCompile(`\d+(\.\d+)*`)
	rows := func(text string) [][]string {
		var out [][]string
		for l := range strings.Lines(text) {
			if cells := strings.SplitN(l, "|", 3); len(cells) == 3 && cells[0] == "" {
				out = append(out, figure.FindAllString(cells[2], -1))
			}
		}
		require.NotEmpty(t, out)
		return out
	}
	page, err := os.ReadFile("performance.md")
	require.NoError(t, err)
	_, speed, ok := strings.Cut(string(page), "\n## Speed\n")
	require.True(t, ok, "performance.md has no section Speed")
	speed, _, _ = strings.Cut(speed, "\n## ")
	results, err := os.ReadFile("../bench/RESULTS.md")
	require.NoError(t, err)
	all := rows(string(results))
	for _, r := range rows(speed) {
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
