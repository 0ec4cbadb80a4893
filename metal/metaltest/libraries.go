package metaltest

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/gomoe/gomoe/metal/internal/emu"
	"github.com/gomoe/gomoe/metal/kernels"
)

// mode is a way of building a library.
type mode int

const (
	distributed mode = iota // the lanes of a simdgroup share its matrices, as on a GPU
	leader                  // lane 0 holds the matrices
	fenced                  // distributed, and reads that no barrier orders after a write are errors
	counted                 // leader, counting the kernels' work
	contracted              // leader, with products and sums of an expression fused, and subnormal numbers flushed to zero
)

func (m mode) String() string {
	return [...]string{"distributed", "leader", "fenced", "counted", "contracted"}[m]
}

func (m mode) options() emu.BuildOptions {
	o := emu.BuildOptions{Leader: m == leader || m == contracted, Lint: m == distributed, Fences: m == fenced}
	o.Count = m == counted
	if m == contracted {
		o.Contraction = "on"
	}
	return o
}

// modesOf returns some if it has any modes, and otherwise leader, distributed and fenced. If
// GOMOE_TEST_ARITHMETIC is set, it returns contracted instead of these three: its results are near
// the host's, but have other bits.
func modesOf(some []mode) []mode {
	if len(some) == 0 {
		if os.Getenv("GOMOE_TEST_ARITHMETIC") != "" {
			return []mode{contracted}
		}
		return []mode{leader, distributed, fenced}
	}
	return some
}

// key names a library: a file of metal/kernels, or "" for all made texts.
type key struct {
	file string
	mode mode
}

// build returns the libraries containing the functions launched by the programs. from may edit the
// sources first and may limit the modes.
func build(ctx context.Context, work map[at]task, from backend) (map[key]*emu.Library, error) {
	var used, made []string
	for _, w := range work {
		for _, l := range w.program.Launches {
			if l.Source.File != "" {
				used = append(used, l.Source.File)
			} else {
				made = append(made, l.Source.Made)
			}
		}
	}
	texts, tensors := map[string]string{}, map[string]bool{}
	for _, f := range used {
		text, err := kernels.Text(f)
		if from.tensors {
			text, tensors[f], err = kernels.TensorText(f)
		}
		if err != nil {
			return nil, err
		}
		texts[f] = text
	}
	if len(made) > 0 {
		slices.Sort(made) // maps have no order, and the name of the compiler's result depends on the text
		text, err := kernels.MadeText(made)
		if err != nil {
			return nil, err
		}
		texts[""] = text
	}
	libs := map[key]*emu.Library{}
	for file, text := range texts {
		if from.edit != nil {
			text = from.edit(text)
		}
		for _, m := range modesOf(from.modes) {
			o := m.options()
			o.Tensors = tensors[file]
			lib, err := Library(ctx, text, o)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", nameOf(file), m, err)
			}
			libs[key{file, m}] = lib
		}
	}
	return libs, nil
}

func nameOf(file string) string {
	if file == "" {
		return "made functions"
	}
	return file
}
