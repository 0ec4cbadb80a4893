package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/gomoe/gomoe/internal/whole"
)

func (t *tool) fmtCommand() *ffcli.Command {
	fs := t.flags("fmt")
	write := fs.Bool("w", false, "write the files instead of printing them")
	diff := fs.Bool("d", false, "print the lines that differ, and exit with 1 if there are any")
	return &ffcli.Command{
		Name: "fmt", ShortUsage: "gomoe fmt FILE... [-w | -d]",
		ShortHelp: "Print programs in canonical form.", FlagSet: fs,
		LongHelp: "Types stand behind every binder, zero parameters are left out and results without a\nname are numbered. Comments stay with their line.",
		Exec: func(ctx context.Context, args []string) error {
			files, err := operands(fs, args)
			switch {
			case err != nil:
				return err
			case len(files) == 0:
				return usagef("no file, want files of programs, or - for standard input")
			case *write && *diff:
				return usagef("-w and -d, want one of them")
			}
			differ := false
			for _, path := range files {
				if *write && path == "-" {
					return usagef("-w with standard input, want a file")
				}
				name, src, err := t.read(ctx, path)
				if err != nil {
					return err
				}
				out, err := format(name, src)
				if err != nil {
					return err
				}
				switch {
				case *diff:
					if d := differing(filepath.Base(name), src, out); d != "" {
						fmt.Fprint(t.stdout, d)
						differ = true
					}
				case !*write:
					fmt.Fprint(t.stdout, out)
				case out != src:
					if err := whole.Write(path, func(w io.Writer) error { _, err := io.WriteString(w, out); return err }); err != nil {
						return err
					}
				}
			}
			if differ {
				return errReported
			}
			return nil
		},
	}
}

// differing returns the differing lines of two texts as a diff without context; "" if the texts are
// equal.
func differing(name, a, b string) string {
	x, y := strings.SplitAfter(a, "\n"), strings.SplitAfter(b, "\n")
	var out strings.Builder
	for i, j := 0, 0; i < len(x) || j < len(y); {
		if i < len(x) && j < len(y) && x[i] == y[j] {
			i, j = i+1, j+1
			continue
		}
		di, dj := resync(x[i:], y[j:])
		fmt.Fprintf(&out, "%s:%d:\n", name, i+1)
		for _, s := range x[i : i+di] {
			out.WriteString("- " + strings.TrimRight(s, "\n") + "\n")
		}
		for _, s := range y[j : j+dj] {
			out.WriteString("+ " + strings.TrimRight(s, "\n") + "\n")
		}
		i, j = i+di, j+dj
	}
	return out.String()
}

// resync returns the smallest numbers of lines to drop from x and y before reaching an equal line
// that is not blank. Both numbers are large if there is no such line nearby.
func resync(x, y []string) (int, int) {
	const near = 100
	for n := 1; n <= near; n++ {
		for i := min(n, len(x)); i >= 0; i-- {
			j := n - i
			if j > len(y) {
				break
			}
			same := i < len(x) && j < len(y) && x[i] == y[j] && strings.TrimSpace(x[i]) != ""
			if same || i == len(x) && j == len(y) {
				return i, j
			}
		}
	}
	return min(near, len(x)), min(near, len(y))
}
