//go:build linux && (amd64 || arm64)

package standin

import (
	_ "embed"
	"slices"
	"strings"
	"testing"
)

//go:embed testdata/methods.txt
var apple string

// The methods of the stand-in have the names and types of Apple's, as two translations of
// Apple's headers have them: see testdata/methods.py. The driver is tested against the
// stand-in, where any other message is a violation.
func TestMethods(t *testing.T) {
	var want []string
	for line := range strings.Lines(apple) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			want = append(want, line)
		}
	}
	got := rawly(t, Options{}).Methods()
	for _, m := range got {
		if !slices.Contains(want, m) {
			t.Errorf("%s is not among Apple's methods", m)
		}
	}
	for _, m := range want {
		if !slices.Contains(got, m) {
			t.Errorf("%s is Apple's, and not the stand-in's; run testdata/methods.py again", m)
		}
	}
}
