package primitives_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// functions returns the package's functions by name, without methods.
func functions(t *testing.T) map[string]*ast.FuncDecl {
	all := map[string]*ast.FuncDecl{}
	pkgs, err := parser.ParseDir(token.NewFileSet(), ".", func(f fs.FileInfo) bool {
		return !strings.HasSuffix(f.Name(), "_test.go")
	}, 0)
	require.NoError(t, err)
	for _, f := range pkgs["primitives"].Files {
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Recv == nil {
				all[d.Name.Name] = d
			}
		}
	}
	return all
}

// builds reports whether a function returns values.
func builds(f *ast.FuncDecl) bool {
	if f.Type.Results == nil {
		return false
	}
	for _, r := range f.Type.Results.List {
		switch r := r.Type.(type) {
		case *ast.StarExpr:
			if s, ok := r.X.(*ast.SelectorExpr); ok && s.Sel.Name == "Value" {
				return true
			}
		case *ast.Ident:
			if r.Name == "Prepared" {
				return true
			}
		}
	}
	return false
}

// TestBuildersAreHelpers finds builders whose equations or errors would have a source
// line of this package: those that call another builder or graph.Fail and
// do not call graph.Helper.
func TestBuildersAreHelpers(t *testing.T) {
	all := functions(t)
	done := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		f := all[name]
		if done[name] || f == nil {
			return
		}
		done[name] = true
		helper, why := false, ""
		ast.Inspect(f.Body, func(n ast.Node) bool {
			c, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			switch fun := c.Fun.(type) {
			case *ast.SelectorExpr:
				if x, ok := fun.X.(*ast.Ident); ok && x.Name == "graph" {
					helper = helper || fun.Sel.Name == "Helper"
					if fun.Sel.Name == "Fail" {
						why = "graph.Fail"
					}
				}
			case *ast.Ident:
				if g := all[fun.Name]; g != nil && builds(g) {
					why = fun.Name
					visit(fun.Name)
				}
			}
			return true
		})
		if why != "" && !helper {
			t.Errorf("%s calls %s and not graph.Helper; its equations and mistakes must carry the caller's line", name, why)
		}
	}
	for name, f := range all {
		if f.Name.IsExported() && builds(f) {
			visit(name)
		}
	}
	if len(done) < 100 {
		t.Errorf("%d builders are found, want all of them", len(done))
	}
}

// TestBuildersCarryTheCallersLine traces builders that call other builders.
func TestBuildersCarryTheCallersLine(t *testing.T) {
	p, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F32, 2, 3, 4)
		y := primitives.Dropout(x, primitives.RandomKey(tr, 1), 0.5)
		weights, ids, scores := primitives.Route(primitives.RouteOp{TopK: 2}, y, nil)
		r := primitives.Prepare(primitives.PrepareOp{Experts: 4}, ids)
		rows, w := primitives.DispatchWeighted(r, x, weights)
		z := primitives.Combine(r, primitives.Mul(rows, primitives.BroadcastInDim(w, rows.Type.Shape, 0)))
		loss := primitives.Add(primitives.LoadBalanceLoss(scores, r.Demand, 2), primitives.RouterZLoss(y))
		return []*graph.Value{primitives.MatMul(z, tr.Input("m", graph.F32, 4, 4)), primitives.MulScalar(loss, 2)}
	})
	require.NoError(t, err)
	for _, e := range p.Eqns {
		if !strings.HasSuffix(e.Pos.File, "helper_test.go") {
			t.Errorf("%s has the line %s", e.Prim.Name(), e.Pos)
		}
	}
}
