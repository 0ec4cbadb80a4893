package whole

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// NewFolder makes a folder that is complete or absent. write writes its files to another
// folder next to it, which is renamed once all of it is on the disk: write must not
// return before its files are on the disk, as files of Write are. It is an error if the
// name exists already. After an error there is nothing.
func NewFolder(path string, write func(folder string) error) (err error) {
	path = filepath.Clean(path)
	if _, err := os.Lstat(path); err == nil {
		return &fs.PathError{Op: "create", Path: path, Err: errors.New("this is there already; remove it, or give another name")}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	temp, remove, err := Scratch(filepath.Dir(path), filepath.Base(path))
	if err != nil {
		return &fs.PathError{Op: "create", Path: path, Err: cause(err)}
	}
	defer func() { err = errors.Join(err, remove()) }() // finds nothing once the folder has its name
	if err := write(temp); err != nil {
		return err
	}
	if err := syncPath(temp); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := os.Rename(temp, path); err != nil {
		return &fs.PathError{Op: "create", Path: path, Err: cause(err)}
	}
	return syncPath(filepath.Dir(path))
}

func syncPath(folder string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	return errors.Join(syncFolder(root), root.Close())
}
