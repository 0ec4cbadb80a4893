package standin

import (
	"embed"
	"fmt"
	"strings"
)

// files holds the stand-in's text: standin.cpp and the files included by it.
//
//go:embed native
var files embed.FS

// source returns the stand-in as one text. The first include of each of its own files is replaced
// by the file's text, with #line directives giving the origin. An include of another file, such as
// abi.h of the emulated GPU, stays.
func source() (string, error) {
	var out strings.Builder
	err := include(&out, "standin.cpp", map[string]bool{})
	return out.String(), err
}

func include(out *strings.Builder, name string, seen map[string]bool) error {
	seen[name] = true
	text, err := files.ReadFile("native/" + name)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "#line 1 %q\n", name)
	for i, line := range strings.Split(string(text), "\n") {
		included, ok := strings.CutPrefix(line, `#include "`)
		included = strings.TrimSuffix(included, `"`)
		if _, err := files.ReadFile("native/" + included); !ok || err != nil {
			if line != "#pragma once" {
				out.WriteString(line)
			}
			out.WriteString("\n")
			continue
		}
		if !seen[included] {
			if err := include(out, included, seen); err != nil {
				return err
			}
		}
		fmt.Fprintf(out, "#line %d %q\n", i+2, name)
	}
	return nil
}
