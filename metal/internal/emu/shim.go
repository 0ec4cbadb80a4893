package emu

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
)

// headers holds the files in shim/: Metal's language in C++, and the runtime. shim/metal has files
// with the names included by Metal sources.
//
//go:embed shim
var headers embed.FS

// shimHash returns a hash of the headers' contents.
func shimHash() string {
	h := sha256.New()
	err := fs.WalkDir(headers, "shim", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := headers.ReadFile(path)
		h.Write([]byte(path))
		h.Write(data)
		return err
	})
	if err != nil {
		return err.Error() // cannot happen: embedded files can always be read
	}
	return hex.EncodeToString(h.Sum(nil))
}

// writeShim writes the headers to dir, which it creates.
func writeShim(dir string) error {
	shim, err := fs.Sub(headers, "shim")
	if err != nil {
		return err
	}
	return fs.WalkDir(shim, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(path))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		data, err := fs.ReadFile(shim, path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o644)
	})
}
