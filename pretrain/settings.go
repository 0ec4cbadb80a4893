package pretrain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/infile"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/strictjson"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/train"
	"github.com/gomoe/gomoe/train/lm"
	"github.com/gomoe/gomoe/world"
)

// Settings configures a run. Read fills in the defaults of moe_lm.
type Settings struct {
	Path  string         // of the settings file, for errors
	Model map[string]any // entries of config.json; see package models
	Data  Data
	Mesh  sharding.Mesh
	DType graph.DType // of the computation and of the weights: F32 or BF16

	Steps, Batch, Length int // Batch in sequences over all ranks, Length in tokens
	Seed                 uint64
	Optimizer            Optimizer
	Rate                 Rate
	Balance, ZLoss       float64 // coefficients of the router losses
	// Remat selects the values recomputed in the backward pass to save memory. Microbatches is
	// the number of microbatches processed in sequence per step. Sums is the element type for summing gradients
	// over ranks: F32, or BF16 or F16 to halve the traffic. Exact gives the same bits on every mesh of dp and ep.
	Remat        nn.Remat
	Microbatches int
	Sums         graph.DType
	Exact        bool
	// Masters keeps weights in F32 and rounds them to DType BF16 in use.
	Masters         bool
	Even            float64 // see train.Config; the model must choose experts using biases
	Zero            train.Zero
	EvalEvery       int    // steps between measurements of the held-out loss; 0 means never
	Metrics         string // address for Prometheus, unless Options.Metrics sets one
	SaveEvery, Keep int    // steps between checkpoints, 0 for none, and number of checkpoints to keep
}

// Data configures the text.
type Data struct {
	// Files lists files and folders of text or, with a tokenizer, files read by data.Build. If empty, the text is the
	// source of the Go standard library.
	Files []string
	// Tokenizer is a tokenizer's file, or its folder. "" uses the bytes of the text as tokens.
	Tokenizer string
	// Date is the date shown to chat templates, with a tokenizer; zero means data.DefaultDate.
	Date    time.Time
	HeldOut []string // files for the held-out loss, with a tokenizer; without one, it uses a batch from the last 5% of the bytes
	// HeldOutBatches is the maximum number of batches of HeldOut to measure the loss on: always the same ones, drawn
	// from all of the text.
	HeldOutBatches int
	Limit          int // maximum MiB of text to read, without a tokenizer
}

// Optimizer configures the optimiser.
type Optimizer struct {
	Name    string  // adamw, lion, muon, adafactor or sgd
	Decay   float64 // weight decay of matrices
	Clip    float64 // maximum global norm of the gradient; 0 means unlimited
	Moments graph.DType
	// Stochastic applies stochastic rounding to bf16 weights.
	Stochastic bool
}

// Rate configures the learning rate.
type Rate struct {
	Name        string // cosine, linear, wsd or constant
	Peak, Floor float64
	Warmup      int // warmup steps; negative means a tenth of the run's steps, at most usualWarmup
	Decay       int // decay steps of wsd
}

// maxSettings is the maximum size of a settings file in bytes.
const maxSettings = 16 << 20

// Read reads a settings file, a JSON object. Errors name the file, the member, its value and the valid values.
func Read(path string) (*Settings, error) {
	text, err := infile.Read(path, maxSettings)
	if err != nil {
		return nil, fmt.Errorf("pretrain: %w", err)
	}
	return Parse(path, text)
}

// idle returns an error if a setting has no effect in combination with the others. A default has none to begin with.
func (s *Settings) idle() error {
	tokens, held, rate := s.Data.Tokenizer != "", len(s.Data.HeldOut) > 0, s.Rate
	for _, x := range []struct {
		idle bool
		name string
		is   string // what the setting is for
	}{
		{held && !tokens, "data.held_out", "texts with data.tokenizer; without one the last 5% of the bytes are held out"},
		{s.Data.HeldOutBatches != 0 && !held, "data.held_out_batches", "texts of data.held_out"},
		{s.Data.Limit != 0 && tokens, "data.limit_mib", "texts without data.tokenizer; with one all of data.files is read"},
		{!s.Data.Date.IsZero() && !tokens, "data.date", "conversations, which want data.tokenizer"},
		{s.EvalEvery != usualEval && s.EvalEvery != 0 && tokens && !held, "eval_every", "texts of data.held_out, if there is a data.tokenizer"},
		{s.Keep != usualKeep && s.SaveEvery == 0, "keep", "checkpoints of save_every"},
		{s.Masters && s.DType == graph.F32, "masters", `"dtype": "bf16"; weights of f32 are f32`},
		{!s.Optimizer.Stochastic && s.DType == graph.F32, "optimizer.stochastic", `"dtype": "bf16"; weights of f32 are not rounded`},
		{s.Exact && s.Sums != graph.F32, "sums", `runs without "exact": true; sums of rounded numbers depend on the number of ranks`},
		{s.Optimizer.Moments != graph.F32 && s.Optimizer.Name == "adafactor", "optimizer.moments", "optimisers with moments; adafactor has means of rows and columns, in f32"},
		{rate.Decay != usualDecay && rate.Name != "wsd", "rate.decay", `"rate.name": "wsd"`},
		{rate.Floor != usualFloor && rate.Name == "constant", "rate.floor", "rates that fall, not for a constant one"},
		{rate.Warmup > 0 && rate.Name == "constant", "rate.warmup", "rates that rise, not for a constant one"},
	} {
		if x.idle {
			return fmt.Errorf("%s is for %s; leave it out", x.name, x.is)
		}
	}
	return nil
}

// Defaults: the number of MiB of text to read; the number of batches for the held-out loss, which take about as
// long as ten steps; the maximum number of warmup steps; the decay steps of wsd, and the share of the peak at the end;
// the number of steps between held-out losses; the number of checkpoints; and the coefficients of the routers' losses.
const (
	usualLimit   = 16
	usualHeldOut = 32
	usualWarmup  = 100
	usualDecay   = 300
	usualFloor   = 0.1
	usualEval    = 150
	usualKeep    = 2
	usualBalance = 0.01
	usualZLoss   = 0.001
)

// Parse is Read for the text of a file.
func Parse(path string, text []byte) (*Settings, error) {
	s := &Settings{
		Path: path, Model: map[string]any{}, Steps: 1500, Batch: 16, Length: 128, Seed: 1,
		Optimizer: Optimizer{Name: "adamw", Decay: 0.1, Clip: 1, Stochastic: true},
		Rate:      Rate{Name: "cosine", Peak: 3e-3, Floor: usualFloor, Warmup: -1, Decay: usualDecay},
		DType:     graph.F32, Sums: graph.F32, Balance: usualBalance, ZLoss: usualZLoss, EvalEvery: usualEval, Keep: usualKeep, Microbatches: 1,
	}
	s.Optimizer.Moments = graph.F32
	mesh := ""
	const most = math.MaxFloat32
	of := members{
		"model": &s.Model,
		"data": members{
			"files": &s.Data.Files, "tokenizer": &s.Data.Tokenizer, "held_out": &s.Data.HeldOut, "held_out_batches": integer{&s.Data.HeldOutBatches, 1}, "date": &s.Data.Date, "limit_mib": integer{&s.Data.Limit, 1},
		},
		"mesh": &mesh, "dtype": lm.DTypes(&s.DType),
		"steps": integer{&s.Steps, 1}, "batch": integer{&s.Batch, 1}, "length": integer{&s.Length, 1}, "seed": &s.Seed,
		"optimizer": members{
			"name":       quoted.OneOf[string]{To: &s.Optimizer.Name, Of: []string{"adamw", "lion", "muon", "adafactor", "sgd"}},
			"decay":      number{to: &s.Optimizer.Decay, most: most},
			"clip":       number{to: &s.Optimizer.Clip, most: most},
			"moments":    lm.DTypes(&s.Optimizer.Moments),
			"stochastic": &s.Optimizer.Stochastic,
		},
		"rate": members{
			"name": quoted.OneOf[string]{To: &s.Rate.Name, Of: []string{"cosine", "linear", "wsd", "constant"}},
			"peak": number{to: &s.Rate.Peak, most: most, above: true}, "floor": number{to: &s.Rate.Floor, most: 1},
			"warmup": integer{&s.Rate.Warmup, 0}, "decay": integer{&s.Rate.Decay, 0},
		},
		"balance": number{to: &s.Balance, most: most}, "z_loss": number{to: &s.ZLoss, most: most}, "even": number{to: &s.Even, most: most},
		"zero":  lm.Zeros(&s.Zero),
		"remat": lm.Remats(&s.Remat), "microbatches": integer{&s.Microbatches, 1},
		"sums": lm.SumTypes(&s.Sums), "exact": &s.Exact, "metrics": &s.Metrics, "masters": &s.Masters,
		"eval_every": integer{&s.EvalEvery, 0}, "save_every": integer{&s.SaveEvery, 0}, "keep": integer{&s.Keep, 1},
	}
	f := file{path}
	if len(bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\ufeff")))) == 0 {
		return nil, fmt.Errorf("pretrain: %s: the file is empty, want an object, such as {}", path)
	}
	var value json.RawMessage
	if err := strictjson.UnmarshalOnce(text, &value); err != nil {
		return nil, fmt.Errorf("pretrain: %s: %w", path, err)
	}
	if err := f.object("", value, of); err != nil {
		return nil, err
	}
	for i, list := range [][]string{s.Data.Files, s.Data.HeldOut} {
		name := []string{"files", "held_out"}[i]
		if list != nil && len(list) == 0 || slices.Contains(list, "") {
			return nil, fmt.Errorf("pretrain: %s: data.%s is %s, want the names of files; or leave it out", path, name, quoted.List(list))
		}
	}
	if err := s.idle(); err != nil {
		return nil, fmt.Errorf("pretrain: %s: %w", path, err)
	}
	if s.Data.HeldOutBatches == 0 {
		s.Data.HeldOutBatches = usualHeldOut
	}
	if s.Data.Limit == 0 {
		s.Data.Limit = usualLimit
	}
	if s.Data.Tokenizer != "" && len(s.Data.Files) == 0 {
		return nil, fmt.Errorf("pretrain: %s: data.tokenizer is %s and data.files is empty, want the files of text", path, quoted.Text(s.Data.Tokenizer))
	}
	if err := s.Place(mesh); err != nil {
		return nil, err
	}
	return s, nil
}

// Place sets the mesh, parsed by world.ParseMesh. It is an error if it has axes other than dp, ep and tp, or if the
// batch is not divisible by its ranks.
func (s *Settings) Place(mesh string) (err error) {
	defer func() {
		if err != nil && strings.Contains(mesh, "=*") {
			err = &world.MisfitError{Err: err}
		}
	}()
	m, err := world.ParseMesh(mesh, nil)
	if err != nil {
		return fmt.Errorf("pretrain: %s: mesh: %w", s.Path, err)
	}
	parts, of, err := lm.Splits(m, s.Exact)
	if err != nil {
		return fmt.Errorf("pretrain: %s: mesh is %s: %w", s.Path, quoted.Text(mesh), err)
	}
	if n := parts * s.Microbatches; s.Batch%n != 0 {
		micro := ""
		if s.Microbatches > 1 {
			micro = fmt.Sprintf(" times the %d microbatches", s.Microbatches)
		}
		return fmt.Errorf("pretrain: %s: batch is %d, want a multiple of %d, the %s with mesh %s%s", s.Path, s.Batch, n, of, quoted.Text(mesh), micro)
	}
	s.Mesh = m
	return nil
}

// facts returns the settings by name, as stored in checkpoints.
func (s *Settings) facts() map[string]string {
	object := func(of map[string]any) string {
		text, _ := json.Marshal(of) // cannot fail: numbers, texts, and lists and objects of them
		return string(text)
	}
	o, r := s.Optimizer, s.Rate
	return map[string]string{
		"model": object(s.Model), "mesh": strconv.Quote(s.Mesh.String()), "dtype": s.DType.String(), "steps": fmt.Sprint(s.Steps), "batch": fmt.Sprint(s.Batch), "length": fmt.Sprint(s.Length),
		"optimizer": object(map[string]any{"name": o.Name, "decay": o.Decay, "clip": o.Clip, "moments": o.Moments.String(), "stochastic": o.Stochastic}),
		"rate":      object(map[string]any{"name": r.Name, "peak": r.Peak, "floor": r.Floor, "warmup": r.Warmup, "decay": r.Decay}),
		"seed":      fmt.Sprint(s.Seed), "balance": fmt.Sprint(s.Balance), "z_loss": fmt.Sprint(s.ZLoss),
		"even": fmt.Sprint(s.Even), "zero": s.Zero.String(), "remat": s.Remat.String(), "microbatches": fmt.Sprint(s.Microbatches), "sums": s.Sums.String(), "exact": fmt.Sprint(s.Exact), "masters": fmt.Sprint(s.Masters), "eval_every": fmt.Sprint(s.EvalEvery), "save_every": fmt.Sprint(s.SaveEvery), "keep": fmt.Sprint(s.Keep),
	}
}

// shared returns the settings that a resumed run must share with its checkpoint, because the state has their shapes and
// types.
func shared() []string {
	return []string{"model", "dtype", "masters", "optimizer.name", "optimizer.moments"}
}

// free returns the settings that do not affect results.
func free() []string {
	return slices.Clone([]string{"eval_every", "save_every", "keep", "zero", "remat"})
}
