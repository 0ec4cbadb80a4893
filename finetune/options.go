package finetune

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/tokenizer"
	"github.com/gomoe/gomoe/train"
	"github.com/gomoe/gomoe/train/lm"
	"github.com/gomoe/gomoe/world"
)

// Options configures Run.
type Options struct {
	// Config sets the job, mesh, device and deadline. The mesh axes dp and ep split the sequences of a batch, ep the
	// experts, and tp heads. Run sets the placements.
	gomoe.Config
	Tokenizer *tokenizer.Tokenizer
	// Data lists files of texts or chats, as read by data.Build. HeldOut lists files for measuring the loss before and
	// after; without any, it is not measured.
	Data, HeldOut []string
	Broken        int       // number of malformed lines to tolerate in them
	Date          time.Time // shown to chat templates; zero means data.DefaultDate
	// Out is the folder for results: the adapter in PEFT's format, with mlx-lm's format in the subfolder mlx, or, with
	// All, the model in the subfolder model; and the run's tokens, metrics and checkpoints.
	Out string

	// LoRA configures the adapters. Without Targets, every matrix of the model named by Usual is adapted. Dropout without
	// a linear layer among them is an error.
	LoRA nn.LoRA
	From string // folder of an initial adapter, from PEFT, mlx-lm or a run's checkpoint; it also sets LoRA
	All  bool   // train all weights, in f32, instead of adapters
	// Merge is a folder or a GGUF file for writing the model with the adapters merged into its weights; "" writes
	// none. MergeType is the element type of its matrices, as for convert.Options.Type.
	Merge     string
	MergeType graph.DType

	Steps int
	Rows  int // sequences per batch, over all ranks
	// Microbatches is the number of microbatches processed in sequence per step, so that a step needs the memory of
	// only one; 0 means 1.
	Microbatches int
	Length       int // tokens per sequence; 0 means 512, or the model's training length if that is shorter
	Rate         float64
	Warm         int // steps of linear warmup; the rate then decays along a cosine to a tenth
	Decay        float64
	Clip         float64 // maximum norm of the gradient; 0 means unlimited
	Seed         uint64
	Every        int // steps between measurements of the held-out loss; 0 measures only before and after
	// Saves configures saving and resuming. Run sets the folder and the facts.
	Saves train.Saves
	// Figures configures the reports of progress. Run sets the folder.
	Figures train.Figures
	// Metrics is an address, such as :9100, for serving the steps to Prometheus from the first process; "" serves
	// none.
	Metrics string
	// Stdout receives the first process's messages; nil discards them.
	Stdout io.Writer
}

// Usual returns the default targets of adapters: the matrices of attention, feed-forward networks and experts.
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
	parts, of, err := lm.Splits(o.Mesh, o.Exact != 0)
	if err != nil {
		return fmt.Errorf("mesh %s: %w", o.Mesh, err)
	}
	if o.Microbatches < 0 {
		return fmt.Errorf("%d microbatches, want at least 1", o.Microbatches)
	}
	if n := parts * max(1, o.Microbatches); o.Rows%n != 0 {
		err := fmt.Errorf("batches of %d sequences for %d %s and %d microbatches, want a multiple of %d", o.Rows, parts, of, max(1, o.Microbatches), n)
		if o.World != nil && o.Exact == 0 && o.Rows%max(1, o.Microbatches) == 0 { // the number of blocks is the same for any number of ranks
			err = &world.MisfitError{Err: err}
		}
		return err
	}
	return nil
}
