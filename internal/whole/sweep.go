package whole

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
)

// temporary returns a unique name, recognised by Sweep.
func temporary(name string) string { return fmt.Sprintf(".%.100s.gomoe-%016x", name, rand.Uint64()) }

// Sweep removes files left in a folder under temporary names by killed processes. Files
// still being written by another process stay, because they are locked. Files that cannot
// be removed are ignored. On systems without such locks, such as Windows, it removes
// nothing.
func Sweep(folder string) {
	if root, err := os.OpenRoot(folder); err == nil {
		sweep(root)
		root.Close()
	}
}

func sweep(root *os.Root) {
	dir, err := root.Open(".")
	if err != nil {
		return
	}
	names, _ := dir.Readdirnames(-1)
	dir.Close()
	temporary := regexp.MustCompile(`^\..+\.gomoe-[0-9a-f]{16}$`)
	for _, name := range names {
		if !temporary.MatchString(name) {
			continue
		}
		if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() && !info.IsDir() {
			continue
		}
		f, err := root.Open(name)
		if err != nil {
			continue
		}
		if tryLock(f) {
			root.RemoveAll(name)
		}
		f.Close()
	}
}

// newTemporary makes a file with a temporary name and locks it.
func newTemporary(root *os.Root, name string, perm fs.FileMode) (f *os.File, temp string, err error) {
	for {
		temp = temporary(name)
		if f, err = root.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm); err != nil {
			return nil, "", err
		}
		lock(f)
		// Another process may have removed the file before the locking.
		if _, err := root.Lstat(temp); err == nil {
			return f, temp, nil
		}
		f.Close()
	}
}

// Temporary makes a file in a folder, readable by this user only, returning it with the
// function that closes and removes it. It also removes leftovers of killed processes.
func Temporary(folder, name string) (f *os.File, remove func() error, err error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	sweep(root)
	f, temp, err := newTemporary(root, name, 0o600)
	if err != nil {
		return nil, nil, err
	}
	return f, func() error {
		err := f.Close()
		if errors.Is(err, os.ErrClosed) {
			err = nil
		}
		return errors.Join(err, os.Remove(filepath.Join(folder, temp)))
	}, nil
}

// Scratch makes a folder in another one, returning it with the function that removes it.
// It also removes leftovers of killed processes.
func Scratch(folder, name string) (path string, remove func() error, err error) {
	Sweep(folder)
	for {
		path = filepath.Join(folder, temporary(name))
		if err := os.Mkdir(path, 0o777); err != nil {
			return "", nil, err
		}
		dir, err := openFolder(path)
		if err != nil {
			continue // another process has removed it before the locking
		}
		lock(dir)
		if _, err := os.Lstat(path); err != nil {
			dir.Close()
			continue
		}
		return path, func() error {
			return errors.Join(os.RemoveAll(path), dir.Close())
		}, nil
	}
}
