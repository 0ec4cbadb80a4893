// Package dynlib loads system libraries and calls their functions, without cgo: RDMA
// verbs, MPI, Metal. On systems without known support, every Open returns an error.
package dynlib

import (
	"fmt"
	"strings"
)

// Library is an open library. It is never 0.
type Library uintptr

// Function is the name of a library's function, and the destination for its address in
// Bind.
type Function struct {
	Name string
	To   *uintptr
}

// Bind looks up functions, returning the names of those missing in the library, in the
// given order.
func (l Library) Bind(functions ...Function) (missing []string) {
	for _, f := range functions {
		var err error
		if *f.To, err = l.Symbol(f.Name); err != nil {
			missing = append(missing, f.Name)
		}
	}
	return missing
}

// First opens the first of the files that bind accepts. If there is none, the error lists
// the files tried, each with the reason.
func First(files []string, bind func(file string, l Library) error) error {
	var tried []string
	for _, file := range files {
		l, err := Open(file)
		if err == nil {
			if err = bind(file, l); err == nil {
				return nil
			}
			l.Close()
		}
		tried = append(tried, fmt.Sprintf("%s (%s)", file, strings.TrimPrefix(firstLine(err.Error()), file+": ")))
	}
	return fmt.Errorf("tried %s", strings.Join(tried, ", "))
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return strings.TrimRight(s, "\x00 ")
}
