package flight

import (
	"fmt"
	"os"
	"path/filepath"
)

// Folder is the destination of records.
type Folder struct {
	Path string
	// Private is set for a folder among other users' files. It is accessible to its owner
	// alone; a folder that others could have made or can change is refused.
	Private bool
}

// Temporary returns the private folder with the given name below the system's folder for
// temporary files.
func Temporary(name string) Folder {
	return Folder{Path: filepath.Join(os.TempDir(), name), Private: true}
}

// open opens the folder, creating it if needed.
func (f Folder) open() (*os.Root, error) {
	if !f.Private {
		if err := os.MkdirAll(f.Path, 0o777); err != nil {
			return nil, err
		}
		return os.OpenRoot(f.Path)
	}
	if err := os.Mkdir(f.Path, 0o700); err != nil && !os.IsExist(err) {
		return nil, err
	}
	root, err := os.OpenRoot(f.Path)
	if err != nil {
		return nil, err
	}
	if err := f.check(root); err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// check returns an error unless the open folder is the folder at f.Path itself, not the
// target of a link there, and only its owner may enter it.
func (f Folder) check(root *os.Root) error {
	named, err := os.Lstat(f.Path)
	if err != nil {
		return err
	}
	opened, err := root.Stat(".")
	if err != nil {
		return err
	}
	if !named.IsDir() || !os.SameFile(named, opened) || !private(opened) {
		return fmt.Errorf("%s is not a folder of this user alone (%v); set GOMOE_FLIGHT to a folder of yours, or to off", f.Path, named.Mode())
	}
	return nil
}
