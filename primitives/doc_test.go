package primitives_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDocNamesBuilders checks that the package comment names every builder once, in one
// of its groups.
func TestDocNamesBuilders(t *testing.T) {
	src, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	named := map[string]int{}
	for _, m := range regexp.MustCompile(`\[(\w+)\]`).FindAllStringSubmatch(string(src), -1) {
		named[m[1]]++
	}
	for name, f := range functions(t) {
		if !f.Name.IsExported() {
			continue
		}
		if named[name] != 1 {
			t.Errorf("doc.go names %s %d times, want once: put [%s] into the group of its purpose", name, named[name], name)
		}
		delete(named, name)
	}
	for name := range named {
		if !strings.HasSuffix(name, "Op") {
			t.Errorf("doc.go names %s, which the package has not", name)
		}
	}
}
