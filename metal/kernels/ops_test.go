package kernels_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/metal/kernels"
)

var update = flag.Bool("update", false, "write testdata/ops.golden")

// found lists, by the name of an operation with its variants, the files whose kernels have it and the functions of
// joins that recognise or make it.
type found struct{ hosts, joins map[string][]string }

// constants returns the operations by the names of their constants.
func constants(t *testing.T) map[string]ops.Op {
	f, err := parser.ParseFile(token.NewFileSet(), "../../lowering/ops/ops.go", nil, 0)
	require.NoError(t, err)
	all := map[string]ops.Op{}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for i, s := range g.Specs {
			switch name := s.(*ast.ValueSpec).Names[0].Name; g.Specs[0].(*ast.ValueSpec).Names[0].Name {
			case "None":
				all[name] = ops.Op(i)
			case "Blocks":
				all[name] = ops.Blocks << i
			}
		}
	}
	require.Equal(t, ops.Wire, all["Wire"])
	return all
}

// read finds the operations in a file. An operation in a comparison, a case or a call of productOf is recognised; elsewhere it is the
// operation of a kernel. A variant that is a variable stands for all that its function names. A variant of
// in.Op.(ops.Op) belongs to all operations with which the function compares in.Op.
func (f *found) read(t *testing.T, path string, all map[string]ops.Op) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		variants, replaced := map[ops.Op]bool{0: true}, map[ast.Expr]bool{}
		var exprs []ast.Expr // that are operations, outermost first
		compared, inner := map[ast.Expr]bool{}, map[ast.Expr]bool{}
		ast.Inspect(fn, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SwitchStmt:
				for _, c := range n.Body.List {
					for _, e := range c.(*ast.CaseClause).List {
						compared[e], replaced[e] = true, isInOp(n.Tag)
					}
				}
			case *ast.CallExpr:
				if x, ok := n.Fun.(*ast.Ident); ok && x.Name == "productOf" { // which compares
					compared[n.Args[2]] = true
				}
			case *ast.BinaryExpr:
				switch n.Op {
				case token.EQL, token.NEQ, token.LEQ:
					compared[n.Y], replaced[n.Y] = true, isInOp(n.X)
				case token.OR:
					if !inner[n] {
						exprs = append(exprs, n)
					}
					inner[n.X], inner[n.Y] = true, true
				}
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "ops" && !inner[n] {
					exprs = append(exprs, n)
				}
				if op := all[n.Sel.Name]; op != 0 && op.Plain() == 0 && !inner[n] {
					variants[op] = true
				}
			}
			return true
		})
		// value returns an expression's operation, and whether it has a variable, or begins with the
		// operation of the instruction that is replaced.
		var value func(e ast.Expr) (op ops.Op, variable, replaces bool)
		value = func(e ast.Expr) (ops.Op, bool, bool) {
			switch e := e.(type) {
			case *ast.BinaryExpr:
				a, v, r := value(e.X)
				b, w, s := value(e.Y)
				return a | b, v || w, r || s
			case *ast.SelectorExpr:
				return all[e.Sel.Name], false, false
			case *ast.TypeAssertExpr:
				return 0, false, true
			}
			return 0, true, false
		}
		add := func(to map[string][]string, op ops.Op, at string) {
			if name := op.String(); op.Plain() != ops.None && !slices.Contains(to[name], at) {
				to[name] = append(to[name], at)
			}
		}
		made := func(op ops.Op) {
			if strings.HasPrefix(filepath.Base(path), "join") {
				add(f.joins, op, fn.Name.Name)
			}
			add(f.hosts, op, filepath.Base(path))
		}
		for _, e := range exprs {
			op, variable, replaces := value(e)
			switch {
			case compared[e]:
				if strings.HasPrefix(filepath.Base(path), "join") {
					add(f.joins, op, fn.Name.Name)
				}
			case replaces:
				for _, of := range exprs {
					if x, _, _ := value(of); replaced[of] {
						made(x | op)
					}
				}
			case variable:
				for v := range variants {
					made(op | v)
				}
			default:
				made(op)
			}
		}
	}
}

// isInOp reports whether an expression is in.Op.
func isInOp(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "Op" {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "in"
}

// TestOperations has a kernel of the host for every operation, and no Metal kernel for an operation that no kernel of
// the host has. testdata/ops.golden lists files of kernels, joins and Metal kernels.
func TestOperations(t *testing.T) {
	f, all := found{map[string][]string{}, map[string][]string{}}, constants(t)
	for _, folder := range []string{"lowering", "primitives"} {
		paths, err := filepath.Glob("../../" + folder + "/*.go")
		require.NoError(t, err)
		for _, path := range paths {
			if !strings.HasSuffix(path, "_test.go") {
				f.read(t, path, all)
			}
		}
	}
	metal := map[string]string{}
	for _, k := range kernels.All() {
		for _, op := range k.Serves {
			metal[op.String()] = k.Name
			if f.hosts[op.String()] == nil {
				t.Errorf("Metal kernel %s serves %s, which no kernel of the host is", k.Name, op)
			}
		}
	}
	for _, op := range ops.All() {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(f.hosts)), func(name string) bool { return name == op.String() || strings.HasPrefix(name, op.String()+"_") }) {
			t.Errorf("no kernel of the host has the operation %s", op)
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(f.hosts)) {
		slices.Sort(f.hosts[name])
		slices.Sort(f.joins[name])
		fmt.Fprintf(&b, "%s: host %s", name, strings.Join(f.hosts[name], " "))
		if j := f.joins[name]; j != nil {
			fmt.Fprintf(&b, "; joins %s", strings.Join(j, " "))
		}
		if k := metal[name]; k != "" {
			fmt.Fprintf(&b, "; metal %s", k)
		}
		b.WriteByte('\n')
	}
	const path = "testdata/ops.golden"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String(), "run with -update")
}
