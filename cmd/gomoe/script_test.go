package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// The transcripts hold results to the last digit, so they are those of the kernels
// that every machine has.
func TestMain(m *testing.M) {
	if err := os.Setenv("GOMOE_KERNELS", "portable"); err != nil {
		panic(err)
	}
	if os.Getenv(asTool) != "" {
		main()
	}
	os.Exit(m.Run())
}

// A script is a file of testdata/wrong or testdata/right: text that says what
// it is about, files behind lines "-- name --", and last "-- transcript --" with
// commands and what they print on both outputs:
//
//	$ gomoe run f.graph
//	the output
//	[exit 1]
//
// "$ cat file" prints a file, and "< file" behind a command is its standard
// input. Programs of testdata are there too. A file x.npy is given as its type
// and elements, f32[2] 1 2, or as raw text behind "raw ".
type script struct {
	path  string
	head  string // all before the transcript
	files map[string]string
	want  string
}

const transcript = "-- transcript --\n"

func readScript(t *testing.T, path string) script {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	head, want, ok := strings.Cut(string(b), transcript)
	require.True(t, ok, "%s has no transcript", path)
	s := script{path: path, head: head, files: map[string]string{}, want: want}
	section := regexp.MustCompile(`(?m)^-- (\S+) --\n`)
	at := section.FindAllStringSubmatchIndex(head, -1)
	for i, m := range at {
		end := len(head)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		s.files[head[m[2]:m[3]]] = head[m[1]:end]
	}
	return s
}

// play runs the script's commands in a new directory and returns the
// transcript.
func (s script) play(t *testing.T) string {
	dir := t.TempDir()
	programs, err := filepath.Glob(filepath.Join("testdata", "*.graph"))
	require.NoError(t, err)
	for _, p := range programs {
		b, err := os.ReadFile(p)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(p)), b, 0o644))
	}
	for name, text := range s.files {
		path := filepath.Join(dir, name)
		if raw, ok := strings.CutPrefix(text, "raw "); ok {
			text = raw
		} else if strings.HasSuffix(name, ".npy") {
			require.NoError(t, array.WriteFile(path, parseArray(t, text)), "%s: %s", s.path, name)
			continue
		}
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	t.Chdir(dir)
	var out strings.Builder
	for _, line := range strings.Split(s.want, "\n") {
		if cmd, ok := strings.CutPrefix(line, "$ "); ok {
			fmt.Fprintf(&out, "%s\n%s", line, command(t, cmd))
		}
	}
	return strings.ReplaceAll(out.String(), dir, "DIR")
}

// command runs one command and returns what it prints.
func command(t *testing.T, line string) string {
	line, stdin, _ := strings.Cut(line, " < ")
	args := strings.Fields(line)
	if args[0] == "cat" {
		b, err := os.ReadFile(args[1])
		require.NoError(t, err)
		return string(b)
	}
	require.Equal(t, "gomoe", args[0], line)
	var in []byte
	if stdin != "" {
		var err error
		in, err = os.ReadFile(stdin)
		require.NoError(t, err)
	}
	for i, a := range args {
		args[i] = strings.Trim(a, "'")
	}
	var out bytes.Buffer
	if status := run(context.Background(), args[1:], bytes.NewReader(in), &out, &out); status != 0 {
		fmt.Fprintf(&out, "[exit %d]\n", status)
	}
	return out.String()
}

// parseArray reads "f32[2] 1 2"; with fewer elements the last is repeated.
func parseArray(t *testing.T, text string) array.Array {
	fields := strings.Fields(text)
	p, err := graph.Parse("array", "program p(x "+fields[0]+") {\nreturn\n}\n")
	require.NoError(t, err)
	a := array.New(p.In[0].Type)
	x := make([]float64, a.Type.Len())
	for i := range x {
		if len(fields) > 1 {
			_, err := fmt.Sscan(fields[min(i+1, len(fields)-1)], &x[i])
			require.NoError(t, err)
		}
	}
	require.NoError(t, a.SetFloat64s(x))
	return a
}

func scripts(t *testing.T, pattern string) []script {
	paths, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, paths, pattern)
	var all []script
	for _, p := range paths {
		all = append(all, readScript(t, p))
	}
	return all
}

// play compares every script with what its commands print.
func play(t *testing.T, pattern string, check func(t *testing.T, got string)) {
	for _, s := range scripts(t, pattern) {
		t.Run(strings.TrimSuffix(filepath.Base(s.path), ".txt"), func(t *testing.T) {
			abs, err := filepath.Abs(s.path)
			require.NoError(t, err)
			got := s.play(t)
			check(t, got)
			if *update {
				require.NoError(t, os.WriteFile(abs, []byte(s.head+transcript+got), 0o644))
				return
			}
			if got != s.want {
				t.Errorf("%s: the transcript differs (- want, + got; -update writes it):\n%s", s.path, differing(s.path, s.want, got))
			}
		})
	}
}

// TestRight runs commands that do what they are told.
func TestRight(t *testing.T) {
	play(t, "testdata/right/*.txt", func(t *testing.T, got string) {
		if strings.Contains(got, "internal error") {
			t.Errorf("an internal error:\n%s", got)
		}
	})
}

// TestWrong shows the message of every kind of mistake. It compares the whole
// text, since the text is what helps.
func TestWrong(t *testing.T) {
	n := len(scripts(t, "testdata/wrong/*.txt"))
	if n < 40 {
		t.Errorf("%d wrong programs, want at least 40", n)
	}
	play(t, "testdata/wrong/*.txt", func(t *testing.T, got string) {
		switch {
		case !strings.Contains(got, "[exit 1]") && !strings.Contains(got, "[exit 2]"):
			t.Errorf("nothing is wrong here:\n%s", got)
		case strings.Contains(got, "internal error"), strings.Contains(got, "goroutine "), strings.Contains(got, "panic"):
			t.Errorf("the mistake is reported as one of gomoe:\n%s", got)
		case strings.Contains(got, "DIR"):
			t.Errorf("the message names a directory of the test:\n%s", got)
		}
	})
}
