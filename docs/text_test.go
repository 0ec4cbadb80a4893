//go:build unix

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestText checks links, and names and commands in backquotes.
func TestText(t *testing.T) {
	root, bin := built.root, built.bin
	f := newFlags()
	link := regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"`)
	code := regexp.MustCompile("`([^`]+)`")
	name := regexp.MustCompile(`^([a-z]+)\.([A-Z]\w*)(?:\.([A-Z]\w*))?(?:\(.*)?$`)
	path := regexp.MustCompile(`^[\w./-]+$`)
	known := map[string]map[string]bool{}
	for _, d := range documents(t) {
		for _, l := range d.text {
			for _, m := range link.FindAllStringSubmatch(l.text, -1) {
				if err := target(root, d.path, m[1]+m[2]); err != "" {
					t.Errorf("%s:%d: link %s: %s", d.path, l.number, m[1]+m[2], err)
				}
			}
			for _, m := range code.FindAllStringSubmatch(l.text, -1) {
				word, _, _ := strings.Cut(m[1], " ")
				if _, err := os.Stat(filepath.Join(bin, word)); err == nil {
					if err := f.check(m[1]); err != nil {
						t.Errorf("%s:%d: %v", d.path, l.number, err)
					}
				}
				if top, _, ok := strings.Cut(m[1], "/"); ok && path.MatchString(m[1]) {
					_, tops := os.Stat(filepath.Join(root, top))
					if _, err := os.Stat(filepath.Join(root, m[1])); tops == nil && err != nil && top != "" && top != "out" && top != "bin" {
						t.Errorf("%s:%d: there is no %s", d.path, l.number, m[1])
					}
				}
				n := name.FindStringSubmatch(m[1])
				if n == nil {
					continue
				}
				if known[n[1]] == nil {
					known[n[1]] = names(t, root, n[1])
				}
				if len(known[n[1]]) > 0 && (!known[n[1]][n[2]] || n[3] != "" && !known[n[1]][n[2]+"."+n[3]]) {
					t.Errorf("%s:%d: there is no %s", d.path, l.number, m[1])
				}
			}
		}
	}
}

// target says what is wrong with a link.
func target(root, from, to string) string {
	if strings.Contains(to, "://") {
		return ""
	}
	path, anchor, _ := strings.Cut(to, "#")
	file := filepath.Join(root, filepath.Dir(from), path)
	if path == "" {
		file = filepath.Join(root, from)
	}
	src, err := os.ReadFile(file)
	if info, e := os.Stat(file); e != nil || !info.IsDir() && err != nil {
		return "there is no such file"
	}
	if anchor == "" {
		return ""
	}
	for _, l := range strings.Split(string(src), "\n") {
		if strings.HasPrefix(l, "#") && slug(l) == anchor {
			return ""
		}
	}
	return "there is no such heading"
}

// slug is the anchor that GitHub gives to a heading.
func slug(heading string) string {
	s := strings.ToLower(strings.TrimSpace(strings.TrimLeft(heading, "#")))
	s = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(s, "")
	return strings.ReplaceAll(s, " ", "-")
}

// names returns the exported names of the package that has this name and, as Type.Name,
// those of its types' methods and fields. It is empty if the module has no such package.
func names(t *testing.T, root, pkg string) map[string]bool {
	out := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() && (e.Name() == "testdata" || strings.HasPrefix(e.Name(), ".")) {
			return filepath.SkipDir
		}
		if !e.IsDir() || pkg != filepath.Base(path) && path != root {
			return nil
		}
		files, err := filepath.Glob(filepath.Join(path, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			if parsed.Name.Name == pkg && !strings.HasSuffix(file, "_test.go") {
				declared(parsed, out)
			}
		}
		return nil
	})
	require.NoError(t, err)
	return out
}

func declared(f *ast.File, out map[string]bool) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				out[d.Name.Name] = true
			} else if typ := base(d.Recv.List[0].Type); typ != "" {
				out[typ+"."+d.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					for _, n := range s.Names {
						out[n.Name] = true
					}
				case *ast.TypeSpec:
					out[s.Name.Name] = true
					members(s, out)
				}
			}
		}
	}
}

func members(s *ast.TypeSpec, out map[string]bool) {
	var list *ast.FieldList
	switch typ := s.Type.(type) {
	case *ast.StructType:
		list = typ.Fields
	case *ast.InterfaceType:
		list = typ.Methods
	default:
		return
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			out[s.Name.Name+"."+n.Name] = true
		}
	}
}

// base is the name of a receiver's type.
func base(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return base(e.X)
	case *ast.IndexExpr:
		return base(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
