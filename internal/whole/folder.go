package whole

import (
	"os"
	"path/filepath"
)

// Folder makes a folder, including missing parents. It returns once the folder's name is
// on the disk.
func Folder(path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	above, err := os.OpenRoot(filepath.Dir(filepath.Clean(path)))
	if err != nil {
		return err
	}
	defer above.Close()
	return syncFolder(above)
}
