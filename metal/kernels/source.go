package kernels

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed *.metal
var files embed.FS

// Text returns the source of a file with every include replaced, once, by the file's text, because a
// Metal library is compiled from one text. #line directives keep the places of errors right.
func Text(file string) (string, error) {
	var b strings.Builder
	err := expand(&b, file, map[string]bool{})
	return b.String(), err
}

// TensorText returns Text including functions that use tensor operations, if the file has any. In that
// case tensors is set, and the text needs Metal Shading Language 4.0.
func TensorText(file string) (text string, tensors bool, err error) {
	if text, err = Text(file); err != nil || !strings.Contains(text, "\n#ifdef TENSOR_OPS\n") {
		return text, false, err
	}
	return "#define TENSOR_OPS\n" + text, true, nil
}

// MadeText returns the source of one library with the generated texts, each once.
func MadeText(made []string) (string, error) {
	var b strings.Builder
	if err := expand(&b, "made.metal", map[string]bool{}); err != nil {
		return "", err
	}
	have := map[string]bool{}
	for _, m := range made {
		if !have[m] {
			have[m] = true
			b.WriteString(m)
			b.WriteByte('\n')
		}
	}
	return b.String(), nil
}

func expand(b *strings.Builder, file string, have map[string]bool) error {
	have[file] = true
	text, err := fs.ReadFile(files, file)
	if err != nil {
		return fmt.Errorf("kernels: source %s: %w", file, err)
	}
	fmt.Fprintf(b, "#line 1 %q\n", file)
	for n, line := range strings.SplitAfter(string(text), "\n") {
		other, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), `#include "`)
		other, quoted := strings.CutSuffix(other, `"`)
		switch {
		case !ok || !quoted:
			b.WriteString(line)
			continue
		case have[other]:
			b.WriteByte('\n')
			continue
		}
		if err := expand(b, other, have); err != nil {
			return fmt.Errorf("%w, included by %s", err, file)
		}
		fmt.Fprintf(b, "#line %d %q\n", n+2, file)
	}
	return nil
}
