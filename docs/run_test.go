//go:build unix

package docs

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the output of commands into documents, where no … is in it")

// limit is how long one command may take. None is meant to come near it.
const limit = 10 * time.Minute

// reader is somebody who follows a document.
type reader struct {
	root string // the repository
	bin  string // its programs, which are in PATH
	home string // what is the reader's own lies below
	dir  string // where the reader is
}

// built has the repository's folder, and that of the programs that documents call.
var built struct{ root, bin string }

func TestMain(m *testing.M) {
	os.Exit(func() int {
		root, err := filepath.Abs("..")
		if err == nil {
			built.root = root
			built.bin, err = os.MkdirTemp("", "gomoe-docs")
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(built.bin)
		cmd := exec.Command("go", "build", "-o", built.bin, "./cmd/gomoe", "./examples/...", "./bench/collectives")
		cmd.Dir = built.root
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// newReader stands in a folder gomoe that has what the checkout has, as links, and in
// which new files are the reader's own.
func newReader(t *testing.T) *reader {
	root, bin, home := built.root, built.bin, t.TempDir()
	dir := filepath.Join(home, "gomoe")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o777))
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	for _, e := range entries {
		if n := e.Name(); n != "bin" && n != "out" && !strings.HasPrefix(n, ".") {
			require.NoError(t, os.Symlink(filepath.Join(root, n), filepath.Join(dir, n)))
		}
	}
	programs, err := os.ReadDir(bin)
	require.NoError(t, err)
	for _, e := range programs {
		require.NoError(t, os.Symlink(filepath.Join(bin, e.Name()), filepath.Join(dir, "bin", e.Name())))
	}
	return &reader{root, bin, home, dir}
}

// TestDocuments follows every document.
func TestDocuments(t *testing.T) {
	f := newFlags()
	for _, d := range documents(t) {
		t.Run(filepath.Base(d.path), func(t *testing.T) {
			t.Parallel()
			r := newReader(t)
			for i := range d.fences {
				fe := &d.fences[i]
				if err := r.follow(fe, f); err != nil {
					t.Errorf("%s:%d: %v", d.path, fe.line, err)
				}
			}
			if *update {
				require.NoError(t, d.write(r.root))
			}
		})
	}
}

// TestFaults seeds documents that are wrong.
func TestFaults(t *testing.T) {
	f := newFlags()
	for _, c := range []struct {
		above, fence, want string
	}{
		{"", "console\n$ echo a\na", ""},
		{"", "console\n$ echo a\nb", "shows\nb\nand prints\na"},
		{"", "console\n$ echo a", "and prints\na"},
		{"", "console\n$ false\nexit status 1", ""},
		{"", "console\n$ false", "and prints\nexit status 1"},
		{"", "console\necho a", "comes before any command"},
		{"", "sh\nfalse", "false: exit status 1"},
		{"", "sh\nmkdir below && cd below\ntest $(basename $PWD) = below", ""},
		{"", "sh\n# not run: hosts\ngomoe launch -hosts h", "gomoe launch has no flag -hosts"},
		{"", "go\npackage main", "no rule covers"},
		{"", "text\nprogram", "no rule covers"},
		{"Write `f.txt`:", "text\na", ""},
		{"From `docs/doc.go`:", "go\npackage docs", ""},
		{"From `docs/doc.go`:", "go\npackage doc", "no excerpt of docs/doc.go"},
		{"Write this to `main.go`:", "go\npackage main", ""},
	} {
		lines := strings.Split(c.fence, "\n")
		err := newReader(t).follow(&fence{lang: lines[0], above: c.above, lines: lines[1:]}, f)
		if c.want == "" {
			require.NoError(t, err, c.fence)
		} else {
			require.ErrorContains(t, err, c.want, c.fence)
		}
	}
}

func (r *reader) follow(fe *fence, f *flags) error {
	switch {
	case fe.lang == "console":
		return r.console(fe)
	case fe.lang == "sh" && len(fe.lines) > 0 && strings.HasPrefix(fe.lines[0], "# not run: "):
		for _, c := range joined(fe.lines) {
			if err := f.check(c); err != nil {
				return err
			}
		}
		return nil
	case fe.lang == "sh":
		for _, c := range joined(fe.lines) {
			if out, err := r.run(c); err != nil {
				return fmt.Errorf("%s: %w\n%s", c, err, out)
			}
		}
		return nil
	case fe.file() != "":
		return r.file(fe.file(), fe.lines)
	}
	return fmt.Errorf("a fence of %q that no rule covers; the rules are in docs/doc.go", fe.lang)
}

// console runs commands and compares what they print. With -update it is written into the
// fence.
func (r *reader) console(fe *fence) error {
	lines := fe.lines
	var updated []string
	for i := 0; i < len(lines); {
		command, ok := strings.CutPrefix(lines[i], "$ ")
		if !ok {
			return fmt.Errorf("%q comes before any command", lines[i])
		}
		begin := i
		for i++; strings.HasSuffix(command, "\\") && i < len(lines); i++ {
			command = strings.TrimSuffix(command, "\\") + strings.TrimSpace(lines[i])
		}
		end := i
		for end < len(lines) && !strings.HasPrefix(lines[end], "$ ") {
			end++
		}
		out, err := r.run(command)
		got := trim(split(out))
		if exit := (&exec.ExitError{}); errors.As(err, &exit) {
			got = append(got, exit.Error())
		} else if err != nil {
			return fmt.Errorf("%s: %w", command, err)
		}
		updated = append(updated, lines[begin:i]...)
		same := matches(trim(lines[i:end]), got)
		if *update && !same && !strings.Contains(strings.Join(lines[i:end], ""), "…") {
			updated, same = append(updated, got...), true
		} else {
			updated = append(updated, lines[i:end]...)
		}
		if !same {
			return fmt.Errorf("%s\nshows\n%s\nand prints\n%s", command, strings.Join(lines[i:end], "\n"), strings.Join(got, "\n"))
		}
		i = end
	}
	fe.lines = updated
	return nil
}

// file writes a file of the reader's, or finds an excerpt of one of the repository.
func (r *reader) file(name string, lines []string) error {
	path := filepath.Join(r.root, filepath.FromSlash(name))
	src, err := os.ReadFile(path)
	if err != nil || !strings.Contains(name, "/") {
		path = filepath.Join(r.dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		return os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o666)
	}
	want, got := []string{"…"}, split(string(src))
	for _, l := range lines {
		want = append(want, strings.TrimSpace(l))
	}
	for i := range got {
		got[i] = strings.TrimSpace(got[i])
	}
	if !matches(append(want, "…"), got) {
		return fmt.Errorf("no excerpt of %s:\n%s", name, strings.Join(lines, "\n"))
	}
	return nil
}

// run runs one command line where the reader is, and follows where it leads.
func (r *reader) run(command string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	here := filepath.Join(r.home, "here")
	cmd := exec.CommandContext(ctx, "sh", "-c", r.replace(command)+"\nstatus=$?; pwd >'"+here+"'; exit $status")
	cmd.Dir = r.dir
	cmd.WaitDelay = time.Second
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "GOMOE_") }),
		"PATH="+r.bin+string(filepath.ListSeparator)+os.Getenv("PATH"), "GOFLAGS=", "CGO_ENABLED=0", "PWD="+r.dir)
	out, err := cmd.CombinedOutput()
	if dir, e := os.ReadFile(here); e == nil {
		r.dir = strings.TrimSpace(string(dir))
	}
	return string(out), err
}

// replace makes a command cheap, and lets go find the repository, of which the reader's
// folder has links only: programs are built already, the default training run takes three
// steps, and the tests are listed.
func (r *reader) replace(command string) string {
	for _, s := range [][2]string{
		{`^go run \./examples/moe_lm$`, `moe_lm -steps 3 -eval 0`},
		{`go run \./(cmd|examples)/(\w+)`, `$2`},
		{`^go test \./\.\.\.$`, `go -C ` + r.root + ` list ./...`},
		{`^go build -o bin/ `, `go -C ` + r.root + ` build -o ` + filepath.Join(r.dir, "bin") + `/ `},
		{`\.\./gomoe\b`, r.root},
	} {
		command = regexp.MustCompile(s[0]).ReplaceAllString(command, s[1])
	}
	return command
}

// joined returns command lines without comments and empty lines.
func joined(lines []string) []string {
	var out []string
	for _, l := range split(strings.ReplaceAll(strings.Join(lines, "\n"), "\\\n", " ")) {
		l, _, _ = strings.Cut(l, "  #")
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "#") {
			out = append(out, l)
		}
	}
	return out
}

func split(s string) []string { return strings.Split(strings.TrimRight(s, "\n"), "\n") }

// trim drops empty lines at both ends.
func trim(lines []string) []string {
	empty := func(s string) bool { return strings.TrimSpace(s) == "" }
	for len(lines) > 0 && empty(lines[0]) {
		lines = lines[1:]
	}
	for len(lines) > 0 && empty(lines[len(lines)-1]) {
		lines = lines[:len(lines)-1]
	}
	return lines
}
