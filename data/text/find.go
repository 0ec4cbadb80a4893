package text

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A file is a candidate for the corpus. Its key is its slash-separated path relative to the directory being
// searched, so a copy of the directory gives the same corpus.
type file struct{ path, key string }

// find lists the files named by data, or the files of the Go standard library. setting is the name of data in
// errors.
func find(ctx context.Context, setting, data string) (source string, files []file, err error) {
	if data == "" {
		src, err := goSource(ctx, setting)
		if err != nil {
			return "", nil, err
		}
		source = "Go standard library (" + src + ")"
		files, err = walk(ctx, src, goFile)
		if err == nil && len(files) == 0 {
			err = fmt.Errorf("text: load %s: no .go files; this Go installation came without sources: "+
				"name files or directories with %s", source, setting)
		}
		return source, files, err
	}
	seen := make(map[string]bool)
	var names []string
	for name := range strings.SplitSeq(data, ",") {
		name = strings.TrimSpace(name)
		if name == "" {
			continue
		}
		names = append(names, name)
		found, err := named(ctx, setting, name)
		if err != nil {
			return "", nil, err
		}
		for _, f := range found {
			real, err := filepath.EvalSymlinks(f.path)
			if err != nil {
				return "", nil, fmt.Errorf("text: %s %s: %w", setting, name, err)
			}
			if real, err = filepath.Abs(real); err != nil {
				return "", nil, fmt.Errorf("text: %s %s: %w", setting, name, err)
			}
			if !seen[real] { // data may name a directory and also a file in it
				seen[real] = true
				files = append(files, f)
			}
		}
	}
	if len(names) == 0 {
		return "", nil, fmt.Errorf("text: %s %q: names no file, want files or directories", setting, data)
	}
	return strings.Join(names, ", "), files, nil
}

// named lists one entry of the setting.
func named(ctx context.Context, setting, name string) ([]file, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("text: %s: %w; want files or directories", setting, err)
	case info.Mode().IsRegular():
		return []file{{name, filepath.Base(name)}}, nil
	case info.IsDir():
		return walk(ctx, name, anyFile)
	}
	return nil, fmt.Errorf("text: %s %s: is neither a file nor a directory, want one of them", setting, name)
}

// anyFile excludes hidden entries, such as folders of version control and editors' lock files.
func anyFile(rel string, dir bool) bool { return !strings.HasPrefix(filepath.Base(rel), ".") }

// goFile includes the library and its tests. It excludes commands, test inputs, and vendored modules.
func goFile(rel string, dir bool) bool {
	switch base := filepath.Base(rel); {
	case !anyFile(rel, dir):
		return false
	case dir:
		return base != "testdata" && base != "vendor" && rel != "cmd"
	default:
		return filepath.Ext(base) == ".go"
	}
}

// walk lists the regular files below root, and links to regular files, in the order of their paths. It calls keep
// for every directory and file with its path relative to root. Links to directories below root are not followed.
func walk(ctx context.Context, root string, keep func(rel string, dir bool) bool) ([]file, error) {
	real, err := filepath.EvalSymlinks(root) // Debian's $GOROOT/src is a link, which WalkDir does not follow
	if err != nil {
		return nil, fmt.Errorf("text: list %s: %w", root, err)
	}
	var files []file
	err = filepath.WalkDir(real, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if path == real {
			return nil
		}
		rel, err := filepath.Rel(real, path)
		if err != nil {
			return err
		}
		if !keep(rel, d.IsDir()) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		regular := d.Type().IsRegular()
		if d.Type()&fs.ModeSymlink != 0 {
			info, err := os.Stat(path)
			regular = err == nil && info.Mode().IsRegular() // a broken link is not text
		}
		if regular {
			files = append(files, file{path, filepath.ToSlash(rel)})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("text: list %s: %w", root, err)
	}
	return files, nil
}

// spread orders files by a hash of their keys; files with equal keys stay in the given order. The hash is
// cryptographic because fast hashes give similar values to similar paths.
func spread(files []file) []file {
	type hashed struct {
		file
		sum [sha256.Size]byte
	}
	all := make([]hashed, len(files))
	for i, f := range files {
		all[i] = hashed{f, sha256.Sum256([]byte(f.key))}
	}
	slices.SortStableFunc(all, func(a, b hashed) int { return slices.Compare(a.sum[:], b.sum[:]) })
	out := make([]file, len(all))
	for i, h := range all {
		out[i] = h.file
	}
	return out
}
