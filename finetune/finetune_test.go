package finetune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/convert"
	"github.com/gomoe/gomoe/data"
	"github.com/gomoe/gomoe/evaluate"
	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/tokenizer"
	"github.com/gomoe/gomoe/train"
	"github.com/gomoe/gomoe/train/report"
)

// folderOf returns a folder with a model of package models' testdata and a tokenizer of as many tokens, which are bytes.
func folderOf(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	for _, file := range []string{safetensors.FileName, checkpoint.ConfigName} {
		text, err := os.ReadFile(filepath.Join("../models/testdata", name, file))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), text, 0o666))
	}
	text, err := tokenizer.Bytes()
	require.NoError(t, err)
	var f map[string]any
	require.NoError(t, json.Unmarshal(text, &f))
	ids := f["model"].(map[string]any)["vocab"].(map[string]any)
	for text, id := range ids {
		if int(id.(float64)) >= 40 {
			delete(ids, text)
		}
	}
	text, err = json.Marshal(f)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, tokenizer.FileName), text, 0o666))
	return dir
}

// configure changes the configuration of a test's model.
func configure(t *testing.T, folder string, change func(config map[string]any)) {
	t.Helper()
	path := filepath.Join(folder, checkpoint.ConfigName)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var config map[string]any
	require.NoError(t, json.Unmarshal(text, &config))
	change(config)
	text, err = json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text, 0o666))
}

// plainPositions changes positions that GGUF files cannot say.
func plainPositions(config map[string]any) {
	config["rope_parameters"] = map[string]any{"rope_type": "default", "rope_theta": 1000}
	delete(config, "rope_scaling")
}

func open(t *testing.T, dir string) (*checkpoint.Checkpoint, *models.Model, *tokenizer.Tokenizer) {
	t.Helper()
	c, err := checkpoint.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	m, err := models.Open(c)
	require.NoError(t, err)
	tok, err := generate.Tokenizer(c)
	require.NoError(t, err)
	return c, m, tok
}

// options returns those of a short run. The texts have the characters that the tokenizer has.
func options(t *testing.T) Options {
	t.Helper()
	dir := t.TempDir()
	texts := func(name string, lines ...string) []string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o666))
		return []string{path}
	}
	return Options{
		Data:    texts("a.jsonl", `{"text": "! # ! # ! # ! #"}`, `{"prompt": "# ", "completion": "! # ! # !"}`, `{"text": "$%$%$%$%$%"}`, `{"text": "! # ! # !"}`),
		HeldOut: texts("b.jsonl", `{"text": "# ! # ! # !"}`, `{"text": "%$%$%$%"}`, `{"text": " # ! #"}`),
		Out:     filepath.Join(dir, "out"),
		LoRA:    nn.LoRA{Rank: 4, Alpha: 8}, Steps: 8, Rows: 2, Length: 12, Rate: 0.02, Warm: 2, Clip: 1, Seed: 3,
	}
}

func run(t *testing.T, model string, o Options) Result {
	t.Helper()
	c, m, tok := open(t, model)
	o.Tokenizer = tok
	r, err := Run(context.Background(), context.Background(), m, c, o)
	require.NoError(t, err)
	return r
}

// Losses and adapters of several steps are those of transformers and PEFT.
func TestPEFT(t *testing.T) {
	text, err := os.ReadFile("testdata/steps.json")
	require.NoError(t, err)
	var want struct {
		Tokens [][]int32
		Losses []float64
		Names  []string
		Last   map[string][]float32
	}
	require.NoError(t, json.Unmarshal(text, &want))
	c, err := checkpoint.Open("../models/testdata/olmoe")
	require.NoError(t, err)
	defer c.Close()
	m, err := models.Open(c)
	require.NoError(t, err)
	tn := &tuning{o: Options{LoRA: nn.LoRA{Rank: 3, Alpha: 6, Targets: []string{"q_proj", "k_proj", "v_proj", "o_proj"}}, Rows: 4, Length: 12, Rate: 1}, c: c, m: m, first: true}
	require.NoError(t, tn.adapt())
	program, err := tn.step().Trace(tn.o.Mesh)
	require.NoError(t, err)
	run, err := train.Open(t.Context(), program, gomoe.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, run.Close()) }()
	require.NoError(t, run.Init(t.Context(), 1))
	tn.begin = map[string]array.Array{}
	for _, p := range program.Params {
		seed := 0
		for i, c := range p.Name {
			seed += (i + 1) * int(c)
		}
		a := array.New(p.Type)
		for i, d := 0, array.Data[float32](a); i < len(d); i++ {
			d[i] = float32(float64((seed%1000+37*i)%101-50) / 200)
		}
		tn.begin[p.Name] = a
		require.Contains(t, want.Names, p.Name)
	}
	require.Len(t, want.Names, len(program.Params))
	require.NoError(t, tn.weights(run, program, true))
	require.NoError(t, c.Close())
	if goruntime.GOOS == "linux" { // the model's weights are used where they lie
		maps, err := os.ReadFile("/proc/self/maps")
		require.NoError(t, err)
		require.Contains(t, string(maps), "/testdata/olmoe/model.safetensors")
	}
	in := map[string]array.Array{}
	for _, name := range inputs() {
		d := graph.I32
		if name == data.Weights {
			d = graph.F32
		}
		in[name] = array.New(graph.T(d, 4, 12))
	}
	for i, row := range want.Tokens {
		for j, id := range row {
			at := i*12 + j
			array.Data[int32](in[data.Tokens])[at], array.Data[int32](in[data.Positions])[at] = id, int32(j)
			if j < 11 {
				array.Data[int32](in[data.Targets])[at], array.Data[float32](in[data.Weights])[at] = row[j+1], 1
			}
		}
	}
	for i, loss := range want.Losses {
		out, err := run.Step(context.Background(), i+1, 0.01, in)
		require.NoError(t, err)
		a, err := out["loss"].Get()
		require.NoError(t, err)
		require.InDelta(t, loss, a.Float64s()[0], 2e-5, "step %d", i)
	}
	for name, x := range want.Last {
		a, err := run.State()[name].Get()
		require.NoError(t, err)
		require.InDeltaSlice(t, x, array.Data[float32](a), 1e-4, name)
	}
}

// usedLike holds the texts and the loss of a model that is used with an adapter to those of another one, and that it matters.
func usedLike(t *testing.T, model, adapter, merged string) {
	t.Helper()
	text := func(path, adapter string) (ids []int32, loss float64) {
		c, m, _ := open(t, path)
		var with *models.Adapters
		if adapter != "" {
			var err error
			with, err = models.OpenAdapters(adapter, m, c)
			require.NoError(t, err)
		}
		g, err := generate.Open(t.Context(), m, c, generate.Options{Room: 40, Sequences: 2, Adapters: with})
		require.NoError(t, err)
		_, err = g.Generate(context.Background(), generate.Request{Prompt: []int32{1, 2, 3, 4, 5}, N: 30}, func(x generate.Token) bool {
			ids = append(ids, x.ID)
			return true
		})
		require.NoError(t, err)
		require.NoError(t, g.Close())
		r, err := evaluate.Text(context.Background(), m, c, []int32{1, 5, 7, 9, 2, 4, 8, 3, 1, 0, 6}, evaluate.Options{Adapters: with})
		require.NoError(t, err)
		return ids, r.Loss
	}
	got, loss := text(model, adapter)
	want, exact := text(merged, "")
	require.Equal(t, want, got)
	require.InDelta(t, exact, loss, 1e-4)
	_, plain := text(model, "")
	require.Greater(t, math.Abs(plain-loss), 1e-3)
}

// A run makes an adapter with which the held-out loss is smaller. The merged model, and a run that begins with the adapter,
// have the loss that it ended with; ranks and a run that goes on make the same adapter.
func TestRun(t *testing.T) {
	model, o := folderOf(t, "olmoe"), options(t)
	o.Merge, o.LoRA.Dropout = filepath.Join(t.TempDir(), "merged"), 0.1
	var lines strings.Builder
	o.Stdout = &lines
	r := run(t, model, o)
	require.Less(t, r.After, r.Before-0.1)
	require.Equal(t, 8, r.Ended.Steps)
	said := lines.String()
	for _, want := range []string{"4 documents", "trains 7168 numbers in 14 adapters beside 16016 of the model", "memory: ", " for 1 rank: state ", fmt.Sprintf("held-out loss %.4f after 8 steps", r.After), "the adapter is in " + o.Out} {
		require.Contains(t, said, want)
	}
	a, err := peft.Open(o.Out, peft.Layout{Experts: true})
	require.NoError(t, err)
	require.Equal(t, 2.0, a.LoRA.Scale())
	require.NoError(t, a.Close())
	bytes := func(out string) string {
		text, err := os.ReadFile(filepath.Join(out, peft.FileName))
		require.NoError(t, err)
		return string(text)
	}

	more := options(t)
	more.Steps, more.Rate = 1, 1e-9
	require.InDelta(t, r.After, run(t, o.Merge, more).Before, 1e-4)
	usedLike(t, model, o.Out, o.Merge)
	more = options(t)
	more.From, more.Steps = o.Out, 1
	next := run(t, model, more)
	require.InDelta(t, r.After, next.Before, 1e-6)
	require.Equal(t, r.Trained, next.Trained, "a run that begins with an adapter keeps its rank")
	require.Len(t, bytes(more.Out), len(bytes(o.Out)))

	ranks := options(t)
	ranks.LoRA = o.LoRA
	ranks.Data, ranks.HeldOut = o.Data, o.HeldOut
	ranks.Mesh, err = sharding.ParseMesh("ep=2")
	require.NoError(t, err)
	require.InDelta(t, r.After, run(t, model, ranks).After, 1e-3)

	parts := options(t)
	parts.LoRA, parts.Data, parts.HeldOut = o.LoRA, o.Data, o.HeldOut
	parts.Saves.Every, parts.Steps, parts.Merge = 3, 8, filepath.Join(t.TempDir(), "merged")
	c, m, tok := open(t, model)
	parts.Tokenizer = tok
	stop, end := context.WithCancel(context.Background())
	parts.Every = 3
	parts.Figures.Progress = func(s report.Step) error {
		if s.Index == 5 {
			end()
		}
		return nil
	}
	half, err := Run(context.Background(), stop, m, c, parts)
	require.EqualError(t, err, "finetune: interrupted after 5 of 8 steps; give -resume to go on from there")
	require.True(t, half.Ended.Stopped)
	require.Equal(t, 5, half.Ended.Steps)
	require.FileExists(t, filepath.Join(parts.Out, peft.FileName), "the adapter of the completed steps")
	require.NoDirExists(t, parts.Merge, "a resumed run would be refused")
	parts.Saves.Resume = true
	whole, err := Run(context.Background(), context.Background(), m, c, parts)
	require.NoError(t, err)
	require.Equal(t, 8, whole.Ended.Steps)
	require.Equal(t, bytes(o.Out), bytes(parts.Out))
	require.DirExists(t, parts.Merge)
}

// A run that is told to end while it cuts texts into tokens ends there.
func TestEndsBefore(t *testing.T) {
	o := options(t)
	c, m, tok := open(t, folderOf(t, "olmoe"))
	o.Tokenizer = tok
	stop, end := context.WithCancelCause(context.Background())
	why := errors.New("the reason")
	end(why)
	_, err := Run(context.Background(), stop, m, c, o)
	require.ErrorIs(t, err, why)
	require.NoFileExists(t, filepath.Join(o.Out, "train.tokens"))
}

// Weights in blocks stay as they are, beside adapters of experts too, and are merged with these: in f32 the model has the loss
// of the run's end, and nearly where its numbers are blocks again,
// or the base's were q8_0, with which products round what they multiply.
func TestBlocks(t *testing.T) {
	folder := folderOf(t, "gpt_oss_mxfp4")
	configure(t, folder, portable)
	file := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, convert.Model(context.Background(), file, folder, convert.Options{Layout: convert.GGUF, Type: graph.Q8_0}))
	for model, near := range map[string]float64{folder: 0.01, file: 0.03} {
		for _, merge := range []graph.DType{graph.F32, graph.Q8_0} {
			if merge == graph.Q8_0 {
				near = 0.03
			}
			o := options(t)
			o.LoRA.Targets = []string{"q_proj", "experts.*.*_proj"}
			o.Merge, o.MergeType = filepath.Join(t.TempDir(), "merged.gguf"), merge
			r := run(t, model, o)
			require.Less(t, r.After, r.Before-0.1)
			more := options(t)
			more.Steps, more.Data, more.HeldOut = 1, o.Data, o.HeldOut
			require.InDelta(t, r.After, run(t, o.Merge, more).Before, near, "%s merged as %s", model, merge)
		}
	}
}

// In microbatches, whose tokens that count are not as many, a run learns what it learns in whole batches, on ranks too.
func TestMicrobatches(t *testing.T) {
	model, o := folderOf(t, "olmoe"), options(t)
	o.Rows, o.Steps, o.Rate = 4, 4, 1e-3
	want := run(t, model, o)
	for _, mesh := range []string{"", "ep=2"} {
		parts := options(t)
		parts.Rows, parts.Steps, parts.Rate, parts.Data, parts.HeldOut = o.Rows, o.Steps, o.Rate, o.Data, o.HeldOut
		parts.Microbatches = 2
		var err error
		parts.Mesh, err = sharding.ParseMesh(mesh)
		require.NoError(t, err)
		got := run(t, model, parts)
		require.InDelta(t, want.Before, got.Before, 1e-5, mesh)
		require.InDelta(t, want.After, got.After, 1e-4, mesh)
		require.InDelta(t, want.Ended.Last.Loss, got.Ended.Last.Loss, 1e-4, mesh)
	}
}

// A run whose loss is not finite says what to do, and with Finite which kernel made the first number that is not. Before
// anything was learned, the learning rate is not the reason.
func TestDiverges(t *testing.T) {
	model := folderOf(t, "olmoe")
	c, m, tok := open(t, model)
	head, err := c.Tensor("lm_head.weight")
	require.NoError(t, err)
	weights, err := head.Array()
	require.NoError(t, err)
	array.Data[float32](weights)[3] = float32(math.NaN()) // in this process's copy of the file
	o := options(t)
	o.Tokenizer = tok
	_, err = Run(context.Background(), context.Background(), m, c, o)
	require.ErrorContains(t, err, "step 1: loss NaN, gradient norm NaN: nothing was learned before, so the weights to begin with, the batch or a coefficient of the loss is not finite, or too large; add -finite")
	for finite, want := range map[bool]string{false: "training has diverged; lower -lr, or add -finite", true: "from finite arguments"} {
		c, m, tok := open(t, model)
		o := options(t)
		o.Tokenizer, o.Rate, o.Warm, o.Steps, o.Finite = tok, 1e36, 0, 8, finite
		_, err = Run(context.Background(), context.Background(), m, c, o)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "step 2: ", "the first step is sound, and so is the mask of documents")
	}
}

// All weights are trained, and what is written is a model.
func TestAll(t *testing.T) {
	o := options(t)
	o.All, o.Rate = true, 0.01
	r := run(t, folderOf(t, "qwen3_moe"), o)
	require.Less(t, r.After, r.Before-0.1)
	more := options(t)
	more.Steps, more.Data, more.HeldOut = 1, o.Data, o.HeldOut
	require.InDelta(t, r.After, run(t, filepath.Join(o.Out, "model"), more).Before, 1e-5)
}

// A run of all weights that goes on writes its model in the place of the earlier one. One that does not go on is told before its
// first step that there is a model.
func TestAllGoesOn(t *testing.T) {
	model, o := folderOf(t, "olmoe"), options(t)
	o.All, o.Steps, o.Saves.Every = true, 2, 2
	run(t, model, o)
	o.Saves.Resume, o.Steps = true, 4
	r := run(t, model, o)
	require.Equal(t, 4, r.Ended.Steps)
	more := options(t)
	more.Steps, more.Data, more.HeldOut = 1, o.Data, o.HeldOut
	require.InDelta(t, r.After, run(t, filepath.Join(o.Out, "model"), more).Before, 1e-5)
	left, err := filepath.Glob(filepath.Join(o.Out, ".*"))
	require.NoError(t, err)
	require.Empty(t, left)

	c, m, tok := open(t, model)
	o.Tokenizer, o.Saves = tok, train.Saves{}
	_, err = Run(context.Background(), context.Background(), m, c, o)
	require.ErrorContains(t, err, "an earlier run has left a checkpoint of step 4; give -resume to go on from it")
	require.NoError(t, os.RemoveAll(filepath.Join(o.Out, "checkpoints")))
	for _, resume := range []bool{false, true} {
		o.Saves = train.Saves{Resume: resume}
		_, err = Run(context.Background(), context.Background(), m, c, o)
		require.ErrorContains(t, err, "an earlier run has left "+filepath.Join(o.Out, "model")+", and no checkpoint to go on from; give -overwrite to write over it, or another folder")
	}
}

// A run that goes on with other weights or other texts says so.
func TestGoesOnOtherwise(t *testing.T) {
	model, other, o := folderOf(t, "olmoe"), folderOf(t, "olmoe"), options(t)
	o.Steps, o.Saves.Every = 1, 1
	run(t, model, o)
	a := options(t)
	a.All, a.Steps, a.Rate = true, 1, 0.1
	run(t, other, a)
	require.NoError(t, os.WriteFile(o.Data[0], []byte(`{"text": "! # ! # ! # ! #"}`), 0o666))
	var said strings.Builder
	o.Steps, o.Saves.Resume, o.Stdout = 2, true, &said
	run(t, filepath.Join(a.Out, "model"), o)
	require.Regexp(t, "resumed after step 1, .*tokens 15 instead of 45, weights [0-9a-f]{16} instead of [0-9a-f]{16}", said.String())
	said.Reset()
	o.Steps = 3
	run(t, filepath.Join(a.Out, "model"), o)
	require.NotContains(t, said.String(), "weights")

	again := o
	said.Reset()
	again.Steps, again.Rows, again.Warm, again.Rate, again.Exact = 4, 16, 3, 0.5, gomoe.ExactBlocks
	var err error
	again.Mesh, err = sharding.ParseMesh("ep=2")
	require.NoError(t, err)
	run(t, filepath.Join(a.Out, "model"), again)
	require.Contains(t, said.String(), `, with -batch 16 instead of 2, -exact true instead of false, -lr 0.5 instead of 0.02, -mesh ep=2 instead of "", -steps 4 instead of 3, -warmup 3 instead of 2`+"\n")
	c, m, tok := open(t, model)
	o.Steps, o.Tokenizer = 2, tok
	_, err = Run(context.Background(), context.Background(), m, c, o)
	require.ErrorContains(t, err, "is of step 4, and the run has 2 steps; give it at least as many, or another folder")
}

// Documents that share a sequence have the losses that they have alone.
func TestDocumentsApart(t *testing.T) {
	alone, n := 0.0, 0.0
	texts := []string{"# ! # !", "%$%$%"}
	model := folderOf(t, "olmoe")
	loss := func(lines ...string) float64 {
		o := options(t)
		require.NoError(t, os.WriteFile(o.HeldOut[0], []byte(strings.Join(lines, "\n")), 0o666))
		o.Steps, o.Rows = 1, 1
		return run(t, model, o).Before
	}
	for _, text := range texts {
		tokens := float64(len(text) - 1)
		alone, n = alone+tokens*loss(fmt.Sprintf(`{"text": %q}`, text)), n+tokens
	}
	together := loss(fmt.Sprintf(`{"text": %q}`, texts[0]), fmt.Sprintf(`{"text": %q}`, texts[1]))
	require.InDelta(t, alone/n, together, 1e-6)
}

// Wrong options and models are errors.
func TestRefuses(t *testing.T) {
	c, m, tok := open(t, folderOf(t, "olmoe"))
	oss, ossModel, ossTok := open(t, folderOf(t, "gpt_oss_mxfp4"))
	mesh, err := sharding.ParseMesh("dp=3")
	require.NoError(t, err)
	for want, change := range map[string]func(o *Options){
		"no tokenizer": func(o *Options) { o.Tokenizer = nil },
		"no data":      func(o *Options) { o.Data = nil },
		"no folder":    func(o *Options) { o.Out = "" },
		"0 steps of":   func(o *Options) { o.Steps = 0 },
		"and 3 microbatches, want a multiple of 3": func(o *Options) { o.Microbatches = 3 },
		"rate 0":                      func(o *Options) { o.Rate = 0 },
		"-1 steps of warm-up":         func(o *Options) { o.Warm = -1 },
		"no adapter to begin with":    func(o *Options) { o.All, o.Merge = true, "x" },
		"for 3 ranks along dp and ep": func(o *Options) { o.Mesh = mesh },
		"sequences of 97 tokens, and the model takes 96: want at most as many (-length)": func(o *Options) { o.Length = 97 },
		`target "x_proj" is no matrix`:          func(o *Options) { o.LoRA.Targets = []string{"x_proj"} },
		"model.embed_tokens is a table":         func(o *Options) { o.LoRA.Targets = []string{"embed_tokens"} },
		"lora: rank 0":                          func(o *Options) { o.LoRA.Rank = 0 },
		"is there already; remove it, or merge": func(o *Options) { o.Merge = o.Data[0] },
		"no-such-file":                          func(o *Options) { o.HeldOut = []string{"no-such-file"} },
		"-dropout 0.5 is for adapters of linear layers, and -targets experts.*.down_proj names experts only; leave -dropout out, or name a linear layer": func(o *Options) {
			o.LoRA.Dropout, o.LoRA.Targets = 0.5, []string{"experts.*.down_proj"}
		},
		"no-such-folder/adapter_config.json: no such file or directory; want the folder of an adapter, or a checkpoint of a run": func(o *Options) { o.From = "no-such-folder" },
		"-1 checkpoints are to stay":                                                      func(o *Options) { o.Saves.Every, o.Saves.Folder.Keep = 1, -1 },
		"could not be written in the end: convert: stat no-such":                          func(o *Options) { o.Merge = "no-such-folder/merged" },
		"could not be written in the end: convert: element type q4_k is for GGUF files":   func(o *Options) { o.Merge, o.MergeType = filepath.Join(o.Out, "merged"), graph.Q4_K },
		"could not be written in the end: convert: create options.go/x: options.go is no": func(o *Options) { o.Merge = "options.go/x" },
		"a.jsonl: there is no token to learn: texts have one token, completions are empty": func(o *Options) {
			require.NoError(t, os.WriteFile(o.Data[0], []byte(`{"text": "#"}`+"\n"+`{"prompt": "# #", "completion": ""}`), 0o666))
		},
	} {
		o := options(t)
		o.Tokenizer = tok
		change(&o)
		_, err := Run(context.Background(), context.Background(), m, c, o)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "finetune: ")
	}
	o := options(t)
	o.Tokenizer, o.All = ossTok, true
	_, err = Run(context.Background(), context.Background(), ossModel, oss, o)
	require.ErrorContains(t, err, "of which all weights cannot be trained; train adapters")
}

// The dropout of an adapter to begin with is not applied to adapters of experts.
func TestFromExperts(t *testing.T) {
	model, o := folderOf(t, "qwen3_moe"), options(t)
	o.Steps, o.LoRA.Targets = 1, []string{"experts.*.down_proj"}
	run(t, model, o)
	path := filepath.Join(o.Out, "mlx", peft.ConfigName)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), `"dropout": 0`)
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), `"dropout": 0`, `"dropout": 0.5`, 1)), 0o666))
	var said strings.Builder
	more := options(t)
	more.Steps, more.LoRA, more.From, more.Stdout = 1, nn.LoRA{}, filepath.Join(o.Out, "mlx"), &said
	run(t, model, more)
	require.Contains(t, said.String(), "the dropout of "+more.From+" is not applied: its adapters are of experts only")
}
