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

// Model says how a checkpoint is a model.
type Model struct {
	Tensors []Tensor `json:"tensors"`
	// Files are the checksums, Hash, of what lies beside the parts, by name: config.json, the tokenizer's files and the like.
	Files map[string]string `json:"files"`
}

// Tensor says how an array is a tensor of a model's files.
type Tensor struct {
	Array string `json:"array"`
	// Name is that in the model's files. With a star, which stands for the number of an expert, there is a tensor for each index
	// of dimension 0.
	Name string `json:"name"`
	// Transposed says that the files have [out,in] of an array [in,out]. Dimension 0 of an array whose name has a star counts for
	// neither.
	Transposed bool `json:"transposed,omitempty"`
	// Halves, unless it is 0, says that of so many rows each the files have first those with even numbers, then the others. The
	// rows of heads lie so in folders of Hugging Face where they lie in turn in GGUF files.
	Halves int `json:"halves,omitempty"`
}

// check returns an error if a tensor cannot be what the model says.
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

// maxBeside is the most bytes of a file next to the parts, such as tokenizer.json.
const maxBeside = 256 << 20

// files returns an error if one of the files beside the parts is not there, or another one.
func (m *Model) files(dir string) error {
	for _, name := range slices.Sorted(maps.Keys(m.Files)) {
		if name != filepath.Base(name) || !filepath.IsLocal(name) {
			return fmt.Errorf("file %s: want a name without folders", quoted.Name(name))
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
