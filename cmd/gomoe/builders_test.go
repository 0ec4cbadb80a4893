package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// source is what the files of a package declare.
type source struct {
	pkg   string
	fset  *token.FileSet
	funcs map[string]*ast.FuncDecl // methods left out
}

func readSource(t *testing.T, pkg string) source {
	s := source{pkg, token.NewFileSet(), map[string]*ast.FuncDecl{}}
	files, err := filepath.Glob(filepath.Join("..", "..", pkg, "*.go"))
	require.NoError(t, err)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		f, err := parser.ParseFile(s.fset, path, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Recv == nil {
				s.funcs[d.Name.Name] = d
			}
		}
	}
	return s
}

// signature prints a function as its callers see it.
func (s source) signature(t *testing.T, f *ast.FuncDecl) string {
	var b bytes.Buffer
	require.NoError(t, printer.Fprint(&b, s.fset, f.Type))
	return s.pkg + "." + f.Name.Name + strings.TrimPrefix(b.String(), "func")
}

// own returns the builder with a primitive's name: its name in the text form or, unless several
// primitives have its type, the name of the type without Op.
func (s source) own(prim, typ string, types map[string]int) *ast.FuncDecl {
	names := []string{strings.ReplaceAll(prim, "_", "")}
	if types[typ] == 1 {
		names = append(names, strings.TrimSuffix(typ, "Op"))
	}
	for _, want := range names {
		for name, f := range s.funcs {
			if f.Name.IsExported() && strings.EqualFold(name, want) {
				return f
			}
		}
	}
	return nil
}

// builderText finds the builders of every primitive in the source. Beside its own it
// has those that build nothing else: whose functions call its builders alone, or
// apply its type alone.
func builderText(t *testing.T) string {
	loops := readSource(t, "graph")
	loops.funcs = map[string]*ast.FuncDecl{"Scan": loops.funcs["Scan"], "Barrier": loops.funcs["Barrier"], "PlaceLike": loops.funcs["PlaceLike"]} // the builders
	sources := []source{loops, readSource(t, "primitives"), readSource(t, "vjp")}
	own, ofType, types := map[string]string{}, map[string]string{}, map[string]int{}
	for _, p := range documented() {
		types[reflect.TypeOf(p).Name()]++
	}
	for _, p := range documented() {
		typ := reflect.TypeOf(p).Name()
		ofType[typ] = p.Name()
		for _, s := range sources {
			if f := s.own(p.Name(), typ, types); f != nil {
				own[s.pkg+"."+f.Name.Name] = p.Name()
			}
		}
	}
	var b strings.Builder
	for _, p := range documented() {
		var list []string
		for _, s := range sources {
			if f := s.own(p.Name(), reflect.TypeOf(p).Name(), types); f != nil {
				list = append(list, s.signature(t, f))
			}
			var more []string
			for name, f := range s.funcs {
				if !f.Name.IsExported() || own[s.pkg+"."+name] != "" {
					continue
				}
				built := s.builds(f, own, ofType, types)
				for first := range own { // a method has the type: DispatchWeighted
					if rest, ok := strings.CutPrefix(s.pkg+"."+name, first); ok && len(built) == 0 && rest != "" {
						built = []string{own[first]}
					}
				}
				if slices.Equal(built, []string{p.Name()}) {
					more = append(more, s.signature(t, f))
				}
			}
			slices.Sort(more)
			list = append(list, more...)
		}
		for _, l := range list {
			fmt.Fprintf(&b, "%s\t%s\n", p.Name(), l)
		}
	}
	return b.String()
}

// builds returns the primitives that a function's text names, through functions
// that are no primitive's own builder. A constant beside others does not count.
func (s source) builds(f *ast.FuncDecl, own, ofType map[string]string, types map[string]int) []string {
	var out []string
	skip := map[*ast.Ident]bool{f.Name: true} // names of fields, and of other packages
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			skip[n.Sel] = true
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok {
				skip[key] = true
			}
		case *ast.Ident:
			g := s.funcs[n.Name]
			switch {
			case skip[n]:
			case own[s.pkg+"."+n.Name] != "" && g != nil:
				out = append(out, own[s.pkg+"."+n.Name])
			case types[n.Name] == 1:
				out = append(out, ofType[n.Name])
			case g != nil && g != f:
				out = append(out, s.builds(g, own, ofType, types)...)
			}
		}
		return true
	})
	slices.Sort(out)
	out = slices.Compact(out)
	if len(out) > 1 {
		out = slices.DeleteFunc(out, func(prim string) bool { return prim == "full" })
	}
	return out
}

// TestBuilders keeps the list of builders up to date, and demands one of every
// primitive that is not made by derivatives alone.
func TestBuilders(t *testing.T) {
	text := builderText(t)
	golden(t, "builders.txt", text)
	for _, p := range documented() {
		name := p.Name()
		inner := strings.HasSuffix(name, "_grad") || slices.Contains([]string{"add_any", "add_along_axis", "grouped_outer"}, name)
		if list := buildersOf(text, name); (len(list) == 0) != inner {
			t.Errorf("%s has the builders %q; want one with its name or, of an operation of derivatives, none", name, list)
		}
	}
}
