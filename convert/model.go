package convert

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/gguf"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
)

// Layout is a form of a model's files.
type Layout string

// The layouts that Model writes.
const (
	Safetensors Layout = "safetensors" // a folder as Hugging Face has them, with a tensor per expert
	MLX         Layout = "mlx"         // a folder as MLX has them, with a tensor for all experts
	GGUF        Layout = "gguf"        // a file as llama.cpp has them
)

// Options say what Model writes.
type Options struct {
	Layout Layout
	// Type is the element type of matrices; zero keeps those that the files have. Types says which ones there are.
	// Norms, biases and routers stay exact in GGUF files: they are f32.
	Type graph.DType
	// Affine, if it is not zero, quantises matrices but routers as MLX does, those whose rows are whole groups. It is for the
	// layout MLX. Type is then the type of scales, biases and all else; zero keeps that of the files, and is f16 for those in blocks.
	Affine nn.Affine
	// Change, if not nil, returns what is written instead of rows of a parameter: of matrix `expert` of a stack, or of
	// matrix 0, from row `row` on, as they lie in the model's files. It may return the rows themselves, or others of the same
	// shape and of any element type. It is called by one goroutine.
	Change func(p nn.Param, expert, row int, rows array.Array) (array.Array, error)
	// LeftOut, if not nil, is called with the names of tensors that the new files do not have: those of layers that predict
	// further tokens, which no model of package models has. The new files do not announce these layers.
	LeftOut func(names []string)
	// Progress is called after each piece with the bytes that are written and those that are to be written. nil means
	// nobody is told.
	Progress func(done, total int64)
}

// fileLimit is the size of the files of a set in bytes, which is Hugging Face's.
const fileLimit = 5 << 30

// Model writes the model at src, which checkpoint.Open opens, to dst: a file for the layout GGUF, a folder for the others.
// Nothing may have the name dst; it is complete when Model returns without an error, and absent after one. It is an error if
// the layout has no form for a setting, an element type or the tokenizer, if llama.cpp, for the layout GGUF, or mlx-lm, for MLX,
// computes with another value than a setting has, and if a number is too large for the element type.
func Model(ctx context.Context, dst, src string, o Options) error {
	if err := (&conversion{ctx: ctx, o: o}).convert(dst, src); err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	return nil
}

// Check returns the error that Model returns before it writes anything, so that a program which is to make the numbers for
// Options.Change first is told in time. A folder for dst must be there.
func Check(ctx context.Context, dst, src string, o Options) error {
	info, err := os.Stat(filepath.Dir(filepath.Clean(dst)))
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "create", Path: dst, Err: fmt.Errorf("%s is no folder", filepath.Dir(dst))}
	}
	if err == nil {
		o.LeftOut = nil
		err = (&conversion{ctx: ctx, o: o, dry: true}).convert(dst, src)
	}
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	return nil
}

// conversion is one use of Model.
type conversion struct {
	dry    bool // nothing is written
	ctx    context.Context
	o      Options
	c      *checkpoint.Checkpoint
	m      *models.Model
	params []param
	done   int64
	total  int64

	numbers bool // weights are no more quantised as config.json says
}

func (j *conversion) convert(dst, src string) (err error) {
	if err := j.o.check(); err != nil {
		return err
	}
	if _, err := os.Lstat(dst); err == nil {
		return &fs.PathError{Op: "create", Path: dst, Err: errors.New("this is there already; remove it, or give another name")}
	}
	if j.c, err = checkpoint.Open(src); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.c.Close()) }()
	if j.m, err = models.Open(j.c); err != nil {
		return err
	}
	if err := j.heeded(); err != nil {
		return err
	}
	if err := j.find(); err != nil {
		return err
	}
	if err := j.grouped(); err != nil {
		return err
	}
	j.leaveOut()
	sources, err := j.sources()
	if err != nil {
		return err
	}
	if j.o.Layout == GGUF {
		meta, err := j.meta(dst)
		if err != nil || j.dry {
			return err
		}
		return gguf.Write(dst, meta, sources)
	}
	files, err := j.describe()
	if err != nil || j.dry {
		return err
	}
	return whole.NewFolder(dst, func(folder string) error {
		if err := whole.WriteAll(folder, files); err != nil {
			return err
		}
		format := "pt"
		if j.o.Layout == MLX {
			format = "mlx"
		}
		return safetensors.WriteSet(folder, map[string]string{"format": format}, sources, fileLimit)
	})
}

// leaveOut says which tensors the new files do not have.
func (j *conversion) leaveOut() {
	var names []string
	for _, t := range models.Further(j.c) {
		names = append(names, t.Name)
	}
	if j.o.LeftOut != nil && len(names) > 0 {
		j.o.LeftOut(names)
	}
}

// folder returns the folder of the model's files.
func (j *conversion) folder() string { return filepath.Dir(j.c.Files[0]) }

// LayoutOf returns the layout that a name asks for: GGUF if it ends with .gguf, else Safetensors.
func LayoutOf(path string) Layout {
	if strings.HasSuffix(path, ".gguf") {
		return GGUF
	}
	return Safetensors
}
