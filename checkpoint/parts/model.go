package parts

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/infile"
	"github.com/gomoe/gomoe/internal/quoted"
)

// Model describes a checkpoint as a model.
type Model struct {
	Tensors []Tensor `json:"tensors"`
	// Files maps the names of files other than parts to their checksums, Hash: config.json, the tokenizer's files and
	// the like.
	Files map[string]string `json:"files"`
}

// Tensor describes an array as a tensor of a model's files.
type Tensor struct {
	Array string `json:"array"`
	// Name is the name in the model's files. A star stands for the number of an expert: there is one tensor for each
	// index of dimension 0.
	Name string `json:"name"`
	// Transposed is set if the files store [out,in] for an array [in,out]. If the name has a star, dimension 0 is not
	// counted.
	Transposed bool `json:"transposed,omitempty"`
	// Halves, if not 0, is the size of the row blocks that the files store de-interleaved: even rows first, then odd
	// rows. Hugging Face folders store the rows of heads in this way where GGUF files interleave them.
	Halves int `json:"halves,omitempty"`
}

// check returns an error if an array cannot be the tensor described by the model.
func (m *Model) check(types map[string]graph.Type) error {
	var errs []error
	names := map[string]bool{}
	for _, t := range m.Tensors {
		of, ok := types[t.Array]
		shape := of.Shape
		if strings.Contains(t.Name, "*") && len(shape) > 0 {
			shape = shape[1:]
		}
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("tensor %s is to be array %s, which there is not", quoted.Name(t.Name), quoted.Name(t.Array)))
		case names[t.Name]:
			errs = append(errs, fmt.Errorf("two arrays are to be tensor %s", quoted.Name(t.Name)))
		case strings.Contains(t.Name, "*") && len(of.Shape) == 0, t.Transposed && len(shape) != 2,
			t.Halves != 0 && (t.Halves < 0 || t.Halves%2 != 0 || len(shape) == 0 || shape[0]%t.Halves != 0):
			errs = append(errs, fmt.Errorf("array %s of %s cannot be %+v", quoted.Name(t.Array), of, t))
		}
		names[t.Name] = true
	}
	return errors.Join(errs...)
}

// maxBeside is the maximum size in bytes of a file other than parts, such as tokenizer.json.
const maxBeside = 256 << 20

// files returns an error if a file other than the parts is missing or has a wrong checksum.
func (m *Model) files(dir string) error {
	for _, name := range slices.Sorted(maps.Keys(m.Files)) {
		if !filepath.IsLocal(name) {
			return fmt.Errorf("file %s: want a name below the folder", quoted.Name(name))
		}
		text, err := infile.Read(filepath.Join(dir, name), maxBeside)
		if err != nil {
			return err
		}
		if got := Hash(text); got != m.Files[name] {
			return fmt.Errorf("%s is damaged, or was changed: its checksum is %.16s, want %.16s", name, got, m.Files[name])
		}
	}
	return nil
}
