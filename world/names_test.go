package world_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gomoe/gomoe/world"
)

// A transport is a line of the table: outside of this package and of the transports'
// own, programs ask the table what a transport can do, and do not name it.
func TestTransportsAreNamedInTheTable(t *testing.T) {
	var names []string
	for _, of := range world.Transports() {
		if of.Doc == "" {
			t.Errorf("transport %s: no Doc", of.Name)
		}
		if !slices.Contains([]string{"auto", "local", "tcp"}, of.Name) { // these are words of other things, too
			names = append(names, of.Name)
		}
	}
	files, fset := 0, token.NewFileSet()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != ".." || slices.Contains([]string{"../world", "../jaccl", "../internal/testing"}, filepath.ToSlash(path))) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files++
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil && slices.Contains(names, s) {
					t.Errorf("%s: %s: a transport's name; ask world.TransportOf for a property of the transport", fset.Position(lit.Pos()), lit.Value)
				}
			}
			return true
		})
		return nil
	})
	if err != nil || files < 300 {
		t.Fatalf("%d files read: %v", files, err)
	}
}
