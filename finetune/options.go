package finetune

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/tokenizer"
	"github.com/gomoe/gomoe/train"
	"github.com/gomoe/gomoe/train/lm"
	"github.com/gomoe/gomoe/world"
)

// Options say how Run trains.
type Options struct {
	// Config has the job, mesh, device and deadline. The mesh axes dp and ep split the sequences of a batch, ep the experts
	// and tp heads. Placements are Run's.
	gomoe.Config
	Tokenizer *tokenizer.Tokenizer
	// Data are files of texts or chats, as data.Build reads them, and HeldOut those on which the loss is measured before and
	// after; without any it is not.
	Data, HeldOut []string
	Broken        int // lines of them that may be broken
	// Out is the folder for what is made: the adapter in PEFT's format and, in mlx, in that of mlx-lm, or with All the model, in
	// model; and the run's tokens, metrics and checkpoints.
	Out string

	// LoRA are the adapters. Without Targets they are all that Usual names and the model has.
	LoRA nn.LoRA
	From string // the folder of an adapter to begin with, PEFT's, mlx-lm's or a run's checkpoint; LoRA is then its
	All  bool   // trains all weights, in f32, instead of adapters
	// Merge is where the model is written with the adapters added to its weights: a folder, or a GGUF file; "" means not.
	// MergeType is the element type of its matrices as convert.Options.Type has it.
	Merge     string
	MergeType graph.DType

	Steps int
	Rows  int // sequences of a batch, over all ranks
	// Microbatches is into how many parts a batch is cut, one after the other, so that a step takes the memory of one; 0 is 1.
	Microbatches int
	Length       int // tokens of a sequence; 0 is 512, or as many as the model was trained for if that is less
	Rate         float64
	Warm         int // steps in which the rate rises; it then falls to a tenth as a cosine does
	Decay        float64
	Clip         float64 // the largest norm of the gradient; 0 means any
	Seed         uint64
	Every        int // after how many steps the held-out loss is measured; 0 means before and after
	// Saves has when the run saves, and whether it goes on from what is there. Folder and facts are Run's.
	Saves train.Saves
	// Figures has how progress is shown. Folder is Run's.
	Figures train.Figures
	// Metrics is an address, such as :9100, where the first process serves the steps to Prometheus; "" is none.
	Metrics string
	// Stdout is where the first process says what happens; nil is nowhere.
	Stdout io.Writer
}

// Usual are the targets of adapters where nothing is said: the matrices of attention, networks and experts.
func Usual() []string {
	return []string{"q_proj", "k_proj", "v_proj", "o_proj", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "gate_proj", "up_proj", "down_proj", "w1", "w2", "w3"}
}

func (o Options) check() error {
	switch {
	case o.Tokenizer == nil:
		return errors.New("no tokenizer")
	case len(o.Data) == 0:
		return errors.New("no data, want files of texts or chats")
	case o.Out == "":
		return errors.New("no folder for what is made")
	case o.Steps < 1 || o.Rows < 1 || o.Length < 2:
		return fmt.Errorf("%d steps of %d sequences of %d tokens, want at least 1 step, 1 sequence and 2 tokens", o.Steps, o.Rows, o.Length)
	case !(o.Rate > 0) || math.IsInf(o.Rate, 0) || !(o.Decay >= 0) || !(o.Clip >= 0):
		return fmt.Errorf("rate %g, decay %g and clip %g, want a rate above 0 and the others at least 0", o.Rate, o.Decay, o.Clip)
	case o.Warm < 0 || o.Every < 0 || o.Saves.Every < 0:
		return fmt.Errorf("%d steps of warm-up, held-out loss every %d, saves every %d: want at least 0", o.Warm, o.Every, o.Saves.Every)
	case o.Saves.Folder.Keep < 0:
		return fmt.Errorf("%d checkpoints are to stay, want at least 1, or 0 for the usual number", o.Saves.Folder.Keep)
	case o.All && (o.From != "" || o.Merge != ""):
		return errors.New("all weights are trained: there is no adapter to begin with or to merge")
	}
	ranks, err := lm.Splits(o.Mesh, o.Exact != 0)
	if err != nil {
		return fmt.Errorf("mesh %s: %w", o.Mesh, err)
	}
	if o.Microbatches < 0 {
		return fmt.Errorf("%d microbatches, want at least 1", o.Microbatches)
	}
	if n := ranks * max(1, o.Microbatches); o.Rows%n != 0 {
		err := fmt.Errorf("batches of %d sequences for %d ranks along dp and ep and %d microbatches, want a multiple of %d", o.Rows, ranks, max(1, o.Microbatches), n)
		if o.World != nil {
			err = &world.MisfitError{Err: err}
		}
		return err
	}
	return nil
}
