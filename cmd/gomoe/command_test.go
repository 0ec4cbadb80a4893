package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
)

// programs returns the texts of all example programs.
func programs(t *testing.T) map[string]string {
	out := map[string]string{}
	paths, err := filepath.Glob("testdata/*.graph")
	require.NoError(t, err)
	golden, err := filepath.Glob("../../primitives/testdata/golden/*.graph")
	require.NoError(t, err)
	for _, p := range append(paths, golden...) {
		b, err := os.ReadFile(p)
		require.NoError(t, err)
		out[p] = string(b)
	}
	require.NotEmpty(t, out)
	return out
}

// TestFormatKeeps holds fmt to its promises for every program: the canonical
// text of a program without comments is the printer's, formatting twice changes
// nothing, and comments, wherever they stand, are all there afterwards.
func TestFormatKeeps(t *testing.T) {
	for path, src := range programs(t) {
		out, err := format(path, src)
		require.NoError(t, err)
		again, err := format(path, out)
		require.NoError(t, err)
		if again != out {
			t.Errorf("%s: formatting twice differs:\n%s", path, differing(path, out, again))
		}
		p, err := gomoe.Parse(path, src)
		require.NoError(t, err)
		q, err := gomoe.Parse(path, out)
		require.NoError(t, err)
		if p.String() != q.String() {
			t.Errorf("%s: formatting changes the program:\n%s\n%s", path, p, q)
		}
		if !strings.Contains(src, "#") && !strings.HasSuffix(out, p.String()) && !strings.Contains(p.String(), "\n\n") {
			t.Errorf("%s: canonical text is not the printer's:\n%s\n%s", path, out, p)
		}
		// A comment above and behind every line.
		var noted strings.Builder
		for i, line := range strings.Split(strings.TrimSuffix(src, "\n"), "\n") {
			fmt.Fprintf(&noted, "#above%d\n%s #behind%d\n", i, line, i)
		}
		kept, err := format(path, noted.String())
		require.NoError(t, err)
		comment := regexp.MustCompile(`#(above|behind)\d+`)
		got, want := comment.FindAllString(kept, -1), comment.FindAllString(noted.String(), -1)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: comments after formatting are %v, want %v", path, got, want)
		}
	}
}

// TestInterrupt stops a command that waits for its input.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	defer w.Close()
	var out bytes.Buffer
	status := make(chan int)
	go func() { status <- run(ctx, []string{"plan", "-"}, r, &out, &out) }()
	cancel()
	if got := <-status; got != exitWrong || out.String() != "gomoe plan: interrupted\n" {
		t.Errorf("status %d and %q", got, out.String())
	}
}

// TestInterruptRun stops a step.
func TestInterruptRun(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out bytes.Buffer
	src := programs(t)["testdata/logs.graph"]
	if got := run(ctx, []string{"run", "-random", "1", "-"}, strings.NewReader(src), &out, &out); got != exitWrong || !strings.HasSuffix(out.String(), "interrupted\n") {
		t.Errorf("status %d and %q", got, out.String())
	}
}

// TestRunWrites compares files with what the session returns.
func TestRunWrites(t *testing.T) {
	dir := t.TempDir()
	src := programs(t)["testdata/regression.graph"]
	var out bytes.Buffer
	require.Equal(t, exitOK, run(context.Background(), []string{"run", "-random", "5", "-out", dir, "-trace", filepath.Join(dir, "t.json"), "-", "-mesh", "dp=2", "-place", "x=dp"}, strings.NewReader(src), &out, &out), out.String())
	p, err := gomoe.Parse("f", src)
	require.NoError(t, err)
	in := map[string]array.Array{}
	complete(p, in, 5)
	want, err := gomoe.Run(context.Background(), p, gomoe.Config{}, in)
	require.NoError(t, err)
	for i, name := range []string{"loss", "p"} {
		got, err := array.ReadFile(filepath.Join(dir, name+".npy"))
		require.NoError(t, err)
		if !array.Equal(got, want[i]) {
			t.Errorf("%s.npy holds %v, want %v", name, got, want[i])
		}
	}
	trace, err := os.ReadFile(filepath.Join(dir, "t.json"))
	require.NoError(t, err)
	if !strings.Contains(string(trace), `"line":"stdin:3"`) || !strings.HasSuffix(string(trace), "]}\n") {
		t.Errorf("trace is\n%s", trace)
	}
}

// TestBrokenPrograms gives damaged programs to every command: each is to end
// with a status and a message, and never with an internal error.
func TestBrokenPrograms(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	texts := programs(t)
	var names []string
	for path := range texts {
		names = append(names, path)
	}
	// Maps have no order and the test has.
	names = sorted(names)
	input := regexp.MustCompile(`(\w+) \w+\[[^\]]`)
	n := 4
	if testing.Short() {
		n = 1
	}
	for _, path := range names {
		for range n {
			src := texts[path]
			if i := strings.Index(src, "\n\nprogram"); i > 0 && !strings.Contains(src, "fn=") {
				src = src[:i+1]
			}
			src = untyped(src)
			for range 1 + r.IntN(2) {
				src = damage(r, src)
			}
			x := "x"
			if all := input.FindAllStringSubmatch(src[:strings.Index(src+"{", "{")], -1); len(all) > 0 {
				x = all[r.IntN(len(all))][1]
			}
			place := x + []string{"=a", "=_,a", "=b.a", "=_,a.b"}[r.IntN(4)]
			for _, args := range [][]string{
				{"run", "-", "-random", "1", "-memory", "1MiB"},
				{"run", "-", "-random", "1", "-memory", "1MiB", "-mesh", "a=2", "-place", strings.ReplaceAll(strings.ReplaceAll(place, ".b", ""), "b.", "")},
				{"plan", "-", "-mesh", "a=2,b=2", "-place", place},
				{"grad", "-", "-pullback"},
				{"check", "-", "-elements", "1", "-memory", "1MiB"},
				{"fmt", "-"},
			} {
				var out bytes.Buffer
				status := run(context.Background(), args, strings.NewReader(src), &out, &out)
				text := out.String()
				if strings.Contains(text, "internal error") || strings.Contains(text, "panics") || status == exitUsage || status != exitOK && text == "" {
					t.Errorf("gomoe %s of\n%s\nends with %d and\n%s", strings.Join(args, " "), src, status, text)
				}
			}
		}
	}
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}

// untyped leaves out the types of results, so that what is damaged is what
// they follow from.
func untyped(src string) string {
	types := regexp.MustCompile(` [a-z0-9]+\[[0-9,]*\]`)
	return regexp.MustCompile(`(?m)^\t.* = `).ReplaceAllStringFunc(src, func(s string) string { return types.ReplaceAllString(s, "") })
}

// damage changes one number or type, or leaves out one parameter or line.
func damage(r *rand.Rand, src string) string {
	// instead replaces one match of the pattern.
	instead := func(pattern string, values ...string) string {
		at := regexp.MustCompile(pattern).FindAllStringIndex(src, -1)
		if len(at) == 0 {
			return src
		}
		m := at[r.IntN(len(at))]
		return src[:m[0]] + values[r.IntN(len(values))] + src[m[1]:]
	}
	switch r.IntN(6) {
	case 0:
		return instead(`\b\d+\b`, "0", "1", "2", "3", "4", "6")
	case 1:
		return instead(`-?\b\d+\b`, "-1", "7", "1000", "9223372036854775807", "-9223372036854775808", "2147483648", "4611686018427387904")
	case 2:
		return instead(`\b(bool|u8|u32|i32|i64|f16|bf16|f32|f64)\b`, "bool", "u8", "i32", "i64", "f16", "bf16", "f32", "f64", "u32")
	case 3:
		return instead(`(?m)^.*\n`, "")
	case 4:
		return instead(`\[\d+(,\d+)*\]`, "[]", "[1]", "[2]", "[0,2]", "[2,2,2]", "[4,0]", "[1,1,1,1]")
	default:
		return instead(` [a-z_]+=\S+`, "")
	}
}

// An error begins with the command's name, or with the file and the line of a program. In gomoe's own code it names the part of the model.
func TestErrorsName(t *testing.T) {
	t.Chdir(t.TempDir())
	at := func(name, text string) string {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o666))
		return name
	}
	text := at("a.txt", strings.Repeat("Tokens go to their experts. ", 100))
	program := at("p.graph", "program p(x f32[2]) {\n\ty f32[3] = neg(x)\n\treturn y\n}\n")
	train := func(name, more string) []string {
		return []string{"train", at(name, `{"model": {"model_type": "olmoe", "hidden_size": 16, "num_hidden_layers": 1, "intermediate_size": 16}, "data": {"files": ["`+text+`"]}, "length": 8, "eval_every": 0, `+more+`}`), "-finite", "-out", name + "-out"}
	}
	for begins, args := range map[string][]string{
		"gomoe train: pretrain: s.json: even: no layer of experts has a bias":                                                            train("s.json", `"even": 0.01`),
		"gomoe train: pretrain: b.json: batch of 1000000000 sequences of 8 tokens in 1 microbatches: a microbatch has 16000000000 pairs": train("b.json", `"batch": 1000000000`),
		"gomoe train: pretrain: f.json: step 2: training has diverged; lower rate.peak of f.json: model.layers.0: ":                      train("f.json", `"batch": 2, "rate": {"peak": 1e30, "warmup": 0}`),
		"p.graph:2: ": {"plan", program},
		"gomoe: there is no flag -version; the command version prints it\n": {"--version"},
	} {
		var said bytes.Buffer
		require.NotZero(t, run(t.Context(), args, nil, io.Discard, &said))
		require.True(t, strings.HasPrefix(said.String(), begins), "%s\nwant %s", said.String(), begins)
		require.NotRegexp(t, `\.go:\d`, said.String())
	}
}
