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

// Layout is a format of a model's files.
type Layout string

// Layouts written by Model.
const (
	Safetensors Layout = "safetensors" // a Hugging Face folder, with one tensor per expert
	MLX         Layout = "mlx"         // an MLX folder, with one tensor for all experts
	GGUF        Layout = "gguf"        // a llama.cpp file
)

// Options configures Model.
type Options struct {
	Layout Layout
	// Type is the element type of matrices; zero keeps the types of the source. Types lists the supported ones. GGUF
	// files store norms, biases and routers exactly, in f32.
	Type graph.DType
	// Affine, if not zero, quantises matrices other than routers in MLX's affine format, provided their rows are whole
	// groups. It requires the layout MLX. Type is then the type of scales, biases and everything else; zero keeps the
	// type of the source, or means f16 for matrices in blocks.
	Affine nn.Affine
	// Change, if not nil, replaces rows of a parameter: rows of matrix number expert in a stack, or of matrix 0,
	// starting at row, in the order of the model's files. It may return the given rows, or others of the same shape
	// with any element type. Calls are not concurrent.
	Change func(p nn.Param, expert, row int, rows array.Array) (array.Array, error)
	// Families are tried before those of package models.
	Families []models.Family
	// LeftOut, if not nil, is called with the names of tensors omitted from the new files: the multi-token prediction
	// layers, which package models does not support. The new files do not declare these layers.
	LeftOut func(names []string)
	// Progress, if not nil, is called after each piece with the number of bytes written and the total.
	Progress func(done, total int64)
}

// fileLimit is the maximum size in bytes of each file in a set, following Hugging Face.
const fileLimit = 5 << 30

// Model converts the model at src, which checkpoint.Open opens, to dst: a file for the layout GGUF, a folder for
// the others. dst must not exist. It is complete when Model returns nil, and absent after an error. It is an error
// if the layout cannot represent a setting, an element type or the tokenizer; if llama.cpp (for GGUF) or mlx-lm
// (for MLX) would ignore a setting's value; or if a number is too large for the element type.
func Model(ctx context.Context, dst, src string, o Options) error {
	if err := (&conversion{ctx: ctx, o: o}).convert(dst, src); err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	return nil
}

// Check returns the errors that Model would find before writing. A program that first computes the numbers for
// Options.Change can thus report them early. dst's parent folder must exist.
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

// conversion is one call of Model.
type conversion struct {
	dry    bool // writes nothing
	ctx    context.Context
	o      Options
	c      *checkpoint.Checkpoint
	m      *models.Model
	params []param
	done   int64
	total  int64

	numbers bool // weights are no longer quantised as config.json says
}

func (j *conversion) convert(dst, src string) (err error) {
	if err := j.o.check(); err != nil {
		return err
	}
	if dst == "" {
		return errors.New("the name of what is written is empty, want a folder, or a file that ends with .gguf")
	}
	if _, err := os.Lstat(dst); err == nil {
		return &fs.PathError{Op: "create", Path: dst, Err: errors.New("this is there already; remove it, or give another name")}
	}
	if j.c, err = checkpoint.Open(src); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.c.Close()) }()
	if j.m, err = models.Open(j.c, j.o.Families...); err != nil {
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

// leaveOut reports the tensors omitted from the new files.
func (j *conversion) leaveOut() {
	var names []string
	for _, t := range models.Further(j.c) {
		names = append(names, t.Name)
	}
	if j.o.LeftOut != nil && len(names) > 0 {
		j.o.LeftOut(names)
	}
}

// folder returns the folder of the source files.
func (j *conversion) folder() string { return filepath.Dir(j.c.Files[0]) }

// LayoutOf returns the layout for a path: GGUF if it ends with .gguf, else Safetensors.
func LayoutOf(path string) Layout {
	if strings.HasSuffix(path, ".gguf") {
		return GGUF
	}
	return Safetensors
}
