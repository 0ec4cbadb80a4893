package parts

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/infile"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/strictjson"
	"github.com/gomoe/gomoe/internal/whole"
)

// ManifestName is the name of the file completing a checkpoint.
const ManifestName = "manifest.json"

// maxManifest is the maximum size of a manifest in bytes, far more than thousands of processes need.
const maxManifest = 64 << 20

// Manifest is the content of manifest.json.
type Manifest struct {
	Format string            `json:"format"`
	Step   int               `json:"step"`
	Facts  map[string]string `json:"facts"`
	Loss   float64           `json:"loss,omitempty"`
	Model  *Model            `json:"model,omitempty"`
	Files  []File            `json:"files"`
	Sum    string            `json:"sum"` // SHA-256 of the manifest with an empty Sum
}

// File is a file of parts.
type File struct {
	Name  string `json:"name"`
	Parts string `json:"parts"`          // SHA-256 of the file's description of its parts
	Host  string `json:"host,omitempty"` // the host storing it, if processes do not share the folder
}

// Commit writes the manifest m of a checkpoint under the given name, after checking that its files exist and hold
// arrays with the given names and types, as well as the model's files. It sets the manifest's Format and checksums.
func (m *Manifest) Commit(dir, name string, types map[string]graph.Type) error {
	m.Format = format
	s, err := open(dir, m)
	if err != nil {
		return err
	}
	for name, t := range types {
		if x, ok := s.arrays[name]; !ok || !x.t.Equal(t) {
			err = errors.Join(err, fmt.Errorf("%s: the files do not hold %s", name, t))
		}
	}
	if m.Model != nil {
		err = errors.Join(err, m.Model.check(types))
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	if m.Sum, err = m.sum(); err != nil {
		return err
	}
	return m.Write(dir, name)
}

// Write writes the manifest under the given name.
func (m Manifest) Write(dir, name string) error {
	return whole.Write(filepath.Join(dir, name), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(m)
	})
}

func (m Manifest) sum() (string, error) {
	m.Sum = ""
	text, err := json.Marshal(m)
	return Hash(text), err
}

// Hash returns the SHA-256 of a text.
func Hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// ReadManifest reads the manifest with the given name. It is an error if its checksum is wrong.
func ReadManifest(dir, name string) (*Manifest, error) {
	text, err := infile.Read(filepath.Join(dir, name), maxManifest)
	if err != nil {
		return nil, err
	}
	m := &Manifest{}
	if err := strictjson.UnmarshalKnown(text, m); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if m.Format != format {
		return nil, fmt.Errorf("%s: format %s, want %q", name, quoted.Name(m.Format), format)
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
