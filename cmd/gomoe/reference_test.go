package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// golden matches texts with the file, or writes it.
func golden(t *testing.T, path, got string) {
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run go generate ./cmd/gomoe")
	if string(want) != got {
		t.Errorf("%s is stale; run go generate ./cmd/gomoe. It differs in:\n%s", path, differing(filepath.Base(path), string(want), got))
	}
}

// exampleText collects the first program of every golden file of package
// primitives that uses its primitive, under the primitive's name. What has no
// golden file there has an example in testdata.
func exampleText(t *testing.T) string {
	var b strings.Builder
	for _, prim := range documented() {
		path := filepath.Join("..", "..", "primitives", "testdata", "golden", prim.Name()+".graph")
		src, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			path = filepath.Join("testdata", prim.Name()+".graph")
			src, err = os.ReadFile(path)
		}
		if os.IsNotExist(err) {
			t.Errorf("%s has no golden file for the reference's example; run go test ./primitives -update", prim.Name())
			continue
		}
		require.NoError(t, err)
		progs, err := graph.ParseAll(path, string(src), primitives.All()...)
		require.NoError(t, err)
		var p *graph.Program
		for _, q := range progs {
			if use(q, prim.Name()) != nil {
				p = q
				break
			}
		}
		if p == nil {
			t.Errorf("%s does not use %s", path, prim.Name())
			continue
		}
		for _, q := range progs {
			q.Name = prim.Name() + "_" + q.Name
		}
		p.Name = prim.Name()
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		fmt.Fprint(&b, p)
	}
	return b.String()
}

// TestReference keeps docs/reference.md and the examples in it up to date.
func TestReference(t *testing.T) {
	text := exampleText(t)
	golden(t, "examples.graph", text)
	page, err := reference(text, builderText(t))
	require.NoError(t, err)
	golden(t, filepath.Join("..", "..", "docs", "reference.md"), page)
}

// TestReferenceIsWhole holds the page to what a reader needs of a primitive.
func TestReferenceIsWhole(t *testing.T) {
	for _, p := range documented() {
		d, ok := p.(graph.Documented)
		if !ok {
			t.Errorf("%s has no Doc", p.Name())
			continue
		}
		doc := d.Doc()
		if doc.Results == "" || doc.Formula == "" {
			t.Errorf("%s: Doc says nothing of its results or its formula: %+v", p.Name(), doc)
		}
		var keys []string
		for _, q := range graph.Params(p) {
			if q.Kind == "" {
				t.Errorf("%s: parameter %s is of a type that no text can hold", p.Name(), q.Key)
			}
			keys = append(keys, q.Key)
		}
		said := clauses(doc.Params, keys)
		for _, key := range keys {
			if said[key] == "" {
				t.Errorf("%s: Doc says nothing of parameter %s, only %q", p.Name(), key, doc.Params)
			}
		}
		if said[""] != "" {
			t.Errorf("%s: Doc describes %q, which is no parameter", p.Name(), said[""])
		}
	}
}
