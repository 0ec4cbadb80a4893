package policy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// file is one Go file of the module.
type file struct {
	path string // from the module's root, with slashes
	pkg  string // its directory from there, "" for the root
	src  []byte
}

func (f file) test() bool { return strings.HasSuffix(f.path, "_test.go") }

// read returns the module's Go files.
func read(root string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			name := d.Name()
			if path != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "out" || name == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		pkg := ""
		if i := strings.LastIndexByte(rel, '/'); i >= 0 {
			pkg = rel[:i]
		}
		files = append(files, file{rel, pkg, src})
		return nil
	})
	return files, err
}

func TestModule(t *testing.T) {
	files, err := read(filepath.Join("..", ".."))
	require.NoError(t, err)
	packages := map[string]bool{}
	used := map[string]map[string]bool{} // imports of files that are no tests
	for _, f := range files {
		packages[f.pkg] = true
		if !f.test() && used[f.pkg] == nil {
			used[f.pkg] = map[string]bool{}
		}
		for _, to := range imported(f) {
			used[f.pkg][to] = true
		}
		for _, p := range problems(f) {
			t.Error(p)
		}
	}
	for _, pkg := range []string{"", "graph", "primitives", "runtime", "cmd/gomoe"} {
		if !packages[pkg] {
			t.Errorf("package %q was not found; the walk begins in the wrong place", pkg)
		}
	}
	for _, p := range unused(imports(), used) {
		t.Error(p)
	}
	declared := map[string]bool{}
	for _, f := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), f.path, f.src, 0)
		if err != nil || f.test() {
			continue // reported above
		}
		for _, s := range specs(parsed) {
			for _, n := range s.Names {
				declared[f.pkg+"."+n.Name] = true
			}
		}
	}
	for name := range readOnly() {
		if !declared[name] {
			t.Errorf("policy: %s is listed as a read-only table and does not exist", name)
		}
	}
}

// imported returns the module's packages that f imports, or none if f is a test.
func imported(f file) []string {
	parsed, err := parser.ParseFile(token.NewFileSet(), f.path, f.src, parser.ImportsOnly)
	if err != nil || f.test() {
		return nil
	}
	var out []string
	for _, s := range parsed.Imports {
		path, err := strconv.Unquote(s.Path.Value)
		if err == nil && (path == module || strings.HasPrefix(path, module+"/")) {
			out = append(out, strings.TrimPrefix(strings.TrimPrefix(path, module), "/"))
		}
	}
	return out
}

// covers reports whether an entry of the table stands for pkg: its path, or one that ends
// in /... for all below it, or in /* for the packages of that folder.
func covers(entry, pkg string) bool {
	if below, all := strings.CutSuffix(entry, "/..."); all {
		return pkg == below || strings.HasPrefix(pkg, below+"/")
	}
	if folder, all := strings.CutSuffix(entry, "/*"); all {
		name, in := strings.CutPrefix(pkg, folder+"/")
		return in && !strings.Contains(name, "/")
	}
	return entry == pkg
}

// unused returns what the table lists and the module lacks: packages that do not exist,
// and imports that their files do not have.
func unused(table map[string][]string, used map[string]map[string]bool) []string {
	var out []string
	for entry, allowed := range table {
		var imports []string // of all packages that the entry stands for
		found := false
		for pkg, to := range used {
			if covers(entry, pkg) {
				imports, found = slices.AppendSeq(imports, maps.Keys(to)), true
			}
		}
		if !found {
			out = append(out, fmt.Sprintf("policy: there is no package %q; take it from the table of imports", entry))
			continue
		}
		for _, a := range allowed {
			if a != anything && !slices.ContainsFunc(imports, func(to string) bool { return covers(a, to) }) {
				out = append(out, fmt.Sprintf("policy: package %q may import %q and does not; take that from the table of imports", entry, a))
			}
		}
	}
	slices.Sort(out)
	return out
}

// The table allows nothing that is not used.
func TestUnused(t *testing.T) {
	table := map[string][]string{"a": {"b", "c"}, "b": {}, "c": {anything}, "d": {}, "cmd/...": {anything}, "tools/...": {anything}, "link/*": {"a", "b", "c"}, "e": {"link/*", "f/*"}}
	used := map[string]map[string]bool{"a": {"b": true}, "b": {}, "c": {"a": true}, "cmd/x": {}, "link/x": {"a": true}, "link/y": {"b": true}, "link/y/z": {"c": true}, "e": {"link/y": true}}
	require.Equal(t, []string{
		`policy: package "a" may import "c" and does not; take that from the table of imports`,
		`policy: package "e" may import "f/*" and does not; take that from the table of imports`,
		`policy: package "link/*" may import "c" and does not; take that from the table of imports`,
		`policy: there is no package "d"; take it from the table of imports`,
		`policy: there is no package "tools/..."; take it from the table of imports`,
	}, unused(table, used))
}

// problems returns what in f is against the rules.
func problems(f file) []string {
	var out []string
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, f.path, f.src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	at := func(n ast.Node, format string, a ...any) {
		p := fset.Position(n.Pos())
		out = append(out, fmt.Sprintf("%s:%d: ", p.Filename, p.Line)+fmt.Sprintf(format, a...))
	}
	for _, s := range parsed.Imports {
		path, err := strconv.Unquote(s.Path.Value)
		switch {
		case err != nil:
			at(s, "%v", err)
		case path == "C":
			at(s, "imports C; the module is built without cgo")
		case path == module+"/primitives" && s.Name != nil && s.Name.Name != "_":
			at(s, "imports primitives as %s; its operations are written primitives.MatMul everywhere", s.Name.Name)
		case !f.test():
			if why := forbidden(f.pkg, path); why != "" {
				at(s, "%s", why)
			}
		}
	}
	if f.test() {
		return out
	}
	for _, d := range parsed.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			at(fn, "an init function; call it where it is needed")
		} else if ok && fn.Recv != nil && fn.Name.Name == "Error" && len(fn.Type.Params.List) == 0 {
			if of := strings.TrimLeft(string(f.src[fset.Position(fn.Recv.List[0].Type.Pos()).Offset:fset.Position(fn.Recv.List[0].Type.End()).Offset]), "*"); ast.IsExported(of) && !strings.HasSuffix(of, "Error") {
				at(fn, "the errors of type %s; end the type's name in Error", of)
			}
		}
	}
	for _, s := range specs(parsed) {
		for i, n := range s.Names {
			if !constant(f.pkg, s, i) {
				at(n, "package variable %s; make it a constant, a function or a field, or list it in readOnly with the reason", n.Name)
			}
		}
	}
	return out
}

// specs returns the package variables that f declares.
func specs(f *ast.File) []*ast.ValueSpec {
	var out []*ast.ValueSpec
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				if v.Doc == nil && !g.Lparen.IsValid() {
					v.Doc = g.Doc
				}
				out = append(out, v)
			}
		}
	}
	return out
}

// constant reports whether variable i of s is an error, an assertion, an
// embedded file or a table that is listed as read-only.
func constant(pkg string, s *ast.ValueSpec, i int) bool {
	name := s.Names[i].Name
	if name == "_" || readOnly()[pkg+"."+name] != "" {
		return true
	}
	if i >= len(s.Values) {
		return embedded(s.Doc)
	}
	call, ok := s.Values[i].(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	from, ok := sel.X.(*ast.Ident)
	return ok && (from.Name == "errors" && sel.Sel.Name == "New" || from.Name == "fmt" && sel.Sel.Name == "Errorf")
}

// embedded reports whether a variable holds an embedded file.
func embedded(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") })
}

// forbidden says why files of pkg that are no tests may not import path, ""
// if they may.
func forbidden(pkg, path string) string {
	if strings.HasPrefix(path, "gonum.org/v1/plot") && !slices.Contains(drawing(), pkg) {
		return fmt.Sprintf("package %q imports %q; pictures are drawn by packages that only commands import: %s", pkg, path, strings.Join(drawing(), ", "))
	}
	if path != module && !strings.HasPrefix(path, module+"/") {
		return ""
	}
	to := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
	if slices.Contains(testSupport(), to) && !slices.Contains(testSupport(), pkg) {
		return fmt.Sprintf("package %q imports %q, which is for tests", pkg, to)
	}
	allowed, ok := everywhere(), false
	for entry, list := range imports() {
		if covers(entry, pkg) {
			allowed, ok = append(allowed, list...), true
		}
	}
	switch {
	case !ok:
		return fmt.Sprintf("package %q is not in the table of imports; add it to internal/policy with what it may import", pkg)
	case !slices.ContainsFunc(allowed, func(a string) bool { return a == anything || covers(a, to) }):
		return fmt.Sprintf("package %q imports %q, which the table in internal/policy does not allow", pkg, to)
	}
	return ""
}

// The rules catch what they are for.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		path, src string
		want      string // of the only problem, "" for none
	}{
		{"graph/a.go", "import \"errors\"\nvar ErrBad = errors.New(\"bad\")", ""},
		{"graph/a.go", "import _ \"github.com/gomoe/gomoe/array\"", `graph/a.go:2: package "graph" imports "array", which the table`},
		{"graph/a_test.go", "import _ \"github.com/gomoe/gomoe/array\"", ""},
		{"runtime/a.go", "import _ \"github.com/gomoe/gomoe/primitives\"", `runtime/a.go:2: package "runtime" imports "primitives", which`},
		{"runtime/a.go", "import _ \"github.com/gomoe/gomoe\"", `runtime/a.go:2: package "runtime" imports "", which`},
		{"world/a.go", "import _ \"github.com/gomoe/gomoe/jaccl/job/meet\"", ""},
		{"jaccl/a.go", "import _ \"github.com/gomoe/gomoe/jaccl/job/meet\"", `jaccl/a.go:2: package "jaccl" imports "jaccl/job/meet", which the table`},
		{"graph/a.go", "import _ \"github.com/gomoe/gomoe/internal/infile\"", ""},
		{"jaccl/link/newcomer/a.go", "import _ \"github.com/gomoe/gomoe/jaccl/link\"", ""},
		{"jaccl/link/tcp/a.go", "import _ \"github.com/gomoe/gomoe/world\"", `jaccl/link/tcp/a.go:2: package "jaccl/link/tcp" imports "world", which the table`},
		{"train/a.go", "import _ \"gonum.org/v1/plot/vg\"", `train/a.go:2: package "train" imports "gonum.org/v1/plot/vg"; pictures`},
		{"gomoe.go", "import _ \"github.com/gomoe/gomoe/cmd/gomoe\"", `gomoe.go:2: package "" imports "cmd/gomoe", which`},
		{"cmd/gomoe/a.go", "import _ \"github.com/gomoe/gomoe/internal/whole\"", ""},
		{"metal/metaltest/a.go", "import _ \"github.com/gomoe/gomoe/metal/internal/clangtest\"", ""},
		{"cmd/gomoe/a.go", "import _ \"github.com/gomoe/gomoe/internal/testing/toy\"", `cmd/gomoe/a.go:2: package "cmd/gomoe" imports "internal/testing/toy", which is for tests`},
		{"newcomer/a.go", "import _ \"github.com/gomoe/gomoe/graph\"", `newcomer/a.go:2: package "newcomer" is not in the table`},
		{"newcomer/a.go", "import _ \"github.com/gomoe/gomoe-other/graph\"", ""},
		{"ep/a_test.go", "import \"C\"", "ep/a_test.go:2: imports C"},
		{"nn/a.go", "import \"github.com/gomoe/gomoe/primitives\"", ""},
		{"nn/a_test.go", "import . \"github.com/gomoe/gomoe/primitives\"", "nn/a_test.go:2: imports primitives as .; its"},
		{"ep/a.go", "func init() {}", "ep/a.go:2: an init function"},
		{"ep/a.go", "type T int\nfunc (T) init() {}\nvar _ = T(0)", ""},
		{"ep/a.go", "//go:embed all.txt\nvar all string", ""},
		{"ep/a.go", "// n counts.\nvar n int", "ep/a.go:3: package variable n; make it"},
		{"ep/a.go", "type Bad struct{}\nfunc (*Bad) Error() string { return \"\" }", "ep/a.go:3: the errors of type Bad; end"},
		{"ep/a.go", "type BadError struct{}\nfunc (BadError) Error() string { return \"\" }", ""},
		{"ep/a.go", "var n int", "ep/a.go:2: package variable n; make it"},
		{"ep/a.go", "var (\n\ta = 1\n\t_ = 2\n)", "ep/a.go:3: package variable a; make it"},
		{"ep/a.go", "func f() { var n int; _ = n }", ""},
		{"ep/a_test.go", "var n int", ""},
		{"ep/a.go", "func", "ep/a.go:2:5: expected"},
	} {
		pkg := ""
		if i := strings.LastIndexByte(c.path, '/'); i >= 0 {
			pkg = c.path[:i]
		}
		got := problems(file{c.path, pkg, []byte("package x\n" + c.src)})
		switch {
		case c.want == "" && len(got) == 0:
		case c.want == "" || len(got) == 0 || !strings.HasPrefix(got[0], c.want):
			t.Errorf("%s: %q: problems %q, want %q", c.path, c.src, got, c.want)
		}
	}
}
