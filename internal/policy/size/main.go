// Command size counts the module: for each package lines and files of Go outside tests,
// lines of tests, lines of assembly, exported names, and options. Each count is printed
// next to its change since the last record, made by a release.
//
//	go run ./internal/policy/size            the table
//	go run ./internal/policy/size -record    and the counts become the record
package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// record holds the counts at the last release.
//
//go:embed record.csv
var record []byte

const recordPath = "internal/policy/size/record.csv"

// counts are a package's, in the order of columns.
type counts [6]int

func columns() []string {
	return []string{"go", "files", "tests", "assembly", "exported", "options"}
}

func main() {
	write := flag.Bool("record", false, "record the counts")
	flag.Parse()
	if err := run(os.Stdout, os.DirFS("."), *write); err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, root fs.FS, write bool) error {
	now, err := count(root)
	if err != nil {
		return err
	}
	before, err := read(record)
	if err != nil {
		return fmt.Errorf("%s: %w", recordPath, err)
	}
	if err := print(w, now, before); err != nil || !write {
		return err
	}
	var b bytes.Buffer
	out := csv.NewWriter(&b)
	out.Write(append([]string{"package"}, columns()...))
	for _, pkg := range slices.Sorted(maps.Keys(now)) {
		row := []string{pkg}
		for _, n := range now[pkg] {
			row = append(row, strconv.Itoa(n))
		}
		out.Write(row)
	}
	out.Flush()
	return errors.Join(out.Error(), os.WriteFile(filepath.FromSlash(recordPath), b.Bytes(), 0o644))
}

// count counts the packages below a folder, by path.
func count(root fs.FS) (map[string]counts, error) {
	all := map[string]counts{}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"testdata", "out", "bin"}, d.Name())) {
			return fs.SkipDir
		}
		if ext := path.Ext(name); ext != ".go" && ext != ".s" {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		c := all[path.Dir(name)]
		lines := bytes.Count(text, []byte("\n"))
		switch {
		case strings.HasSuffix(name, ".s"):
			c[3] += lines
		case strings.HasSuffix(name, "_test.go"):
			c[2] += lines
		default:
			c[0], c[1] = c[0]+lines, c[1]+1
			file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			exported, options := names(file)
			c[4], c[5] = c[4]+exported, c[5]+options
		}
		all[path.Dir(name)] = c
		return nil
	})
	return all, err
}

// names counts a file's exported names, including methods of exported types, and its
// options: exported fields of types with names ending in Options, Config or Settings, and
// flags.
func names(file *ast.File) (exported, options int) {
	add := func(name *ast.Ident) {
		if name.IsExported() && file.Name.Name != "main" {
			exported++
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type)) {
				add(d.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					for _, name := range s.Names {
						add(name)
					}
				case *ast.TypeSpec:
					add(s.Name)
					options += fields(s)
				}
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if ok && slices.Contains(flags(), strings.TrimSuffix(method.Sel.Name, "Var")) && len(call.Args) >= 3 {
			options++
		}
		return true
	})
	return exported, options
}

// flags are the methods of flag.FlagSet that declare a flag, without Var.
func flags() []string {
	return []string{"Bool", "Duration", "Float64", "Int", "Int64", "String", "Text", "Uint", "Uint64", "Func", "BoolFunc"}
}

func receiver(t ast.Expr) string {
	for {
		switch e := t.(type) {
		case *ast.StarExpr:
			t = e.X
		case *ast.IndexExpr:
			t = e.X
		case *ast.IndexListExpr:
			t = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

func fields(s *ast.TypeSpec) (n int) {
	t, ok := s.Type.(*ast.StructType)
	name := s.Name.Name
	if !ok || !s.Name.IsExported() || !strings.HasSuffix(name, "Options") && !strings.HasSuffix(name, "Config") && !strings.HasSuffix(name, "Settings") {
		return 0
	}
	for _, f := range t.Fields.List {
		for _, name := range f.Names {
			if name.IsExported() {
				n++
			}
		}
	}
	return n
}

// read reads a record.
func read(text []byte) (map[string]counts, error) {
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return nil, err
	}
	all := map[string]counts{}
	for _, row := range rows[1:] {
		var c counts
		for i := range c {
			if c[i], err = strconv.Atoi(row[i+1]); err != nil {
				return nil, err
			}
		}
		all[row[0]] = c
	}
	return all, nil
}

// print prints the packages, the largest first, and the sum.
func print(w io.Writer, now, before map[string]counts) error {
	var sum, sumBefore counts
	packages := maps.Clone(now)
	maps.Copy(packages, before)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "%s\t\tpackage\n", strings.Join(columns(), "\t\t"))
	row := func(name string, c, b counts) {
		for i := range c {
			change := ""
			if c[i] != b[i] {
				change = fmt.Sprintf("%+d", c[i]-b[i])
			}
			fmt.Fprintf(tw, "%d\t%s\t", c[i], change)
		}
		fmt.Fprintf(tw, "%s\n", name)
	}
	for _, pkg := range slices.SortedFunc(maps.Keys(packages), func(a, b string) int {
		return cmp.Or(now[b][0]-now[a][0], strings.Compare(a, b))
	}) {
		row("  "+pkg, now[pkg], before[pkg])
		for i := range sum {
			sum[i], sumBefore[i] = sum[i]+now[pkg][i], sumBefore[i]+before[pkg][i]
		}
	}
	row("  all", sum, sumBefore)
	return tw.Flush()
}
