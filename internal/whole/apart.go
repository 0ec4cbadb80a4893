package whole

import (
	"fmt"
	"os"
	"path/filepath"
)

// Apart returns an error if a file to be written is one of the given files, which the program reads or writes as
// well: under the same path, spelled in any way, or through a symbolic or hard link. Only regular files count, so that
// a terminal may be input and output. "" and files that do not exist are no inputs.
func Apart(path string, others ...string) error {
	to, err := os.Stat(path)
	if err == nil && !to.Mode().IsRegular() {
		return nil
	}
	for _, other := range others {
		if Same(path, other) || err != nil && other != "" && absolute(path) == absolute(other) { // the latter would be created by two outputs
			return fmt.Errorf("%s is also %s, which would be lost; want another name for the output", path, other)
		}
	}
	return nil
}

// Same reports whether two paths lead to one file or folder.
func Same(a, b string) bool {
	x, err := os.Stat(a)
	y, wrong := os.Stat(b)
	return err == nil && wrong == nil && os.SameFile(x, y)
}

// absolute returns a path for comparing it with others.
func absolute(path string) string {
	if real, err := target(path); err == nil {
		path = real
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(folder, filepath.Base(path))
	}
	if full, err := filepath.Abs(path); err == nil {
		path = full
	}
	return path
}

// ApartIn is Apart for files with the given names in a folder.
func ApartIn(folder string, names []string, others ...string) error {
	for _, name := range names {
		if err := Apart(filepath.Join(folder, name), others...); err != nil {
			return err
		}
	}
	return nil
}
