package emu

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
)

// headers are the language for C++ and the runtime, in shim/; shim/metal has
// the names that Metal sources include.
//
//go:embed shim
var headers embed.FS

// shimHash names the headers' contents.
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
		return err.Error() // embedded files are always there
	}
	return hex.EncodeToString(h.Sum(nil))
}

// writeShim writes the headers to a new directory.
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
