package jinja

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Templates are rendered as the environment of transformers renders them: ../../testdata/jinja.py.
func TestJinja(t *testing.T) {
	f, err := os.Open("../../testdata/jinja.json.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	var all struct {
		Values json.RawMessage
		Cases  [][2]*string // a template and its text, nil for an error
	}
	require.NoError(t, json.NewDecoder(z).Decode(&all))
	require.NotEmpty(t, all.Cases)
	values, err := Decode(all.Values)
	require.NoError(t, err)
	for _, c := range all.Cases {
		src, want := *c[0], c[1]
		got := ""
		tmpl, err := Compile(src)
		if err == nil {
			got, _, err = tmpl.Render(values.(*Dict), time.Now(), nil)
		}
		switch {
		case err != nil && want != nil:
			t.Errorf("%s: %v, want %q", src, err, *want)
		case err != nil && (!strings.HasPrefix(err.Error(), "line ") || strings.HasPrefix(err.Error(), "line 0:")):
			t.Errorf("%s: %v names no line", src, err)
		case err == nil && want == nil:
			t.Errorf("%s: %q, want an error", src, got)
		case err == nil && got != *want:
			t.Errorf("%s:\n%q, want\n%q", src, got, *want)
		}
	}
}
