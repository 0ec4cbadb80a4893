package main

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/gomoe/gomoe/graph"
)

// builders has a line per builder: the primitive's name, a tab and the function's signature. The
// builder with the primitive's own name comes first. The file is generated from the source of
// packages primitives and vjp. The variable is never written.
//
//go:embed builders.txt
var builders string

// buildersOf returns the signatures of the functions building a primitive.
func buildersOf(builders, prim string) []string {
	var out []string
	for line := range strings.Lines(builders) {
		if name, signature, _ := strings.Cut(strings.TrimSpace(line), "\t"); name == prim {
			out = append(out, signature)
		}
	}
	return out
}

// goOf returns the Go calls of a primitive.
func goOf(builders string, p graph.Primitive) string {
	list := buildersOf(builders, p.Name())
	if len(list) == 0 {
		return "Go: no builder; derivatives apply it.\n\n"
	}
	return fmt.Sprintf("Go:\n\n```go\n%s\n```\n\n", strings.Join(list, "\n"))
}
