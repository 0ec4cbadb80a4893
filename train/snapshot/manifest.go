package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/whole"
)

// manifestName is the name of the file that completes a snapshot. Where processes do not see the same folder, the manifest
// is written under readyName first: when all folders have that, the snapshot is there, and completed in one after the other.
const (
	manifestName = "manifest.json"
	readyName    = "ready.json"
)

// maxManifest is far more than a manifest of thousands of processes has.
const maxManifest = 64 << 20

// manifest is what manifest.json has.
type manifest struct {
	Format string            `json:"format"`
	Step   int               `json:"step"`
	Facts  map[string]string `json:"facts"`
	Loss   float64           `json:"loss,omitempty"`
	Files  []file            `json:"files"`
	Sum    string            `json:"sum"` // SHA-256 of the manifest with an empty Sum
}

// file is one of the snapshot's files.
type file struct {
	Name  string `json:"name"`
	Parts string `json:"parts"`          // SHA-256 of what the file says about its parts
	Host  string `json:"host,omitempty"` // where it lies, if processes do not see the same folder
}

// commit writes the manifest of a snapshot under a name, if its files are there and hold arrays of these types by name.
func commit(dir, name string, files []file, s State, types map[string]graph.Type) error {
	m := manifest{Format: format, Step: s.Step, Facts: s.Facts, Loss: s.Loss, Files: files}
	snap, err := open(dir, &m)
	if err != nil {
		return err
	}
	for name, t := range types {
		if x, ok := snap.arrays[name]; !ok || !x.t.Equal(t) {
			err = errors.Join(err, fmt.Errorf("%s: the files do not hold %s", name, t))
		}
	}
	if err = errors.Join(err, snap.Close()); err != nil {
		return err
	}
	if m.Sum, err = m.sum(); err != nil {
		return err
	}
	return m.write(dir, name)
}

func (m manifest) write(dir, name string) error {
	return whole.Write(filepath.Join(dir, name), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(m)
	})
}

func (m manifest) sum() (string, error) {
	m.Sum = ""
	text, err := json.Marshal(m)
	return hash(text), err
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// readManifest reads the manifest of a snapshot that has this name.
func readManifest(dir, name string) (*manifest, error) {
	f, _, err := tensor.OpenRegular(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxManifest {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxManifest)
	}
	m := &manifest{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if m.Format != format {
		return nil, fmt.Errorf("%s: format %q, want %q", name, m.Format, format)
	}
	want, err := m.sum()
	if err != nil {
		return nil, err
	}
	if m.Sum != want {
		return nil, fmt.Errorf("%s is damaged: its checksum is %.16s, want %.16s", name, m.Sum, want)
	}
	return m, nil
}

// conclude completes a snapshot whose manifest has the name readyName.
func conclude(dir string) error {
	m, err := readManifest(dir, readyName)
	if err != nil {
		return err
	}
	return m.write(dir, manifestName)
}
