package pretrain

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/tokenizer"
	"github.com/gomoe/gomoe/train"
	"github.com/gomoe/gomoe/train/lm"
	"github.com/gomoe/gomoe/train/snapshot"
)

// small are sizes of a family with which a step takes milliseconds.
const small = `"hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 16`

// corpus writes a text, and returns its name.
func corpus(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	return path
}

var prose = strings.Repeat("Every token goes to two experts. The router says to which, and how much they weigh.\n", 20)

// follow runs settings and returns what it says.
func follow(t *testing.T, settings, out string, resume bool) (string, error) {
	t.Helper()
	s, err := Parse("s.json", []byte(settings))
	require.NoError(t, err)
	var said strings.Builder
	err = Run(context.Background(), context.Background(), s, Options{Out: out, Resume: resume, Stdout: &said})
	return said.String(), err
}

// losses returns those of a run's steps, as metrics.csv has them.
func losses(t *testing.T, out string) (all []string) { t.Helper(); return column(t, out, "loss") }

// column returns a column of metrics.csv.
func column(t *testing.T, out, of string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "metrics.csv"))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	at := -1
	for i, name := range strings.Split(lines[0], ",") {
		if name == of {
			at = i
		}
	}
	require.GreaterOrEqual(t, at, 0, lines[0])
	for _, line := range lines[1:] {
		all = append(all, strings.Split(line, ",")[at])
	}
	return all
}

// alike compares losses of two meshes, which add up the tokens' losses in different orders.
func alike(t *testing.T, want, got string) {
	t.Helper()
	x, err := strconv.ParseFloat(want, 64)
	require.NoError(t, err)
	y, err := strconv.ParseFloat(got, 64)
	require.NoError(t, err)
	require.InDelta(t, x, y, 1e-5*x)
}

// same holds the folder's model to the newest checkpoint of the run, and to the model that this checkpoint opens as: all
// tensors, and no others.
func same(t *testing.T, out string) *models.Model {
	t.Helper()
	saved, err := snapshot.Folder{Path: filepath.Join(out, "checkpoints")}.Latest(t.Context())
	require.NoError(t, err)
	defer saved.Close()
	m := holds(t, saved.Path, saved)
	other := holds(t, out, saved)
	require.Equal(t, other.Settings, m.Settings)
	return m
}

// holds holds a model to a checkpoint.
func holds(t *testing.T, path string, saved *snapshot.Snapshot) *models.Model {
	t.Helper()
	c, err := checkpoint.Open(path)
	require.NoError(t, err)
	defer c.Close()
	m, err := models.Open(c)
	require.NoError(t, err)
	params, err := models.Params(m, c)
	require.NoError(t, err)
	require.NoError(t, models.Surplus(c, params))
	for _, p := range params {
		w, err := models.Find(c, p)
		require.NoError(t, err)
		got := array.New(w.Type)
		require.NoError(t, w.Fill(runtime.Part{Whole: w.Type, Start: make([]int, w.Type.Rank()), Array: got}))
		want, err := saved.Array(p.Name)
		require.NoError(t, err)
		require.True(t, array.Equal(got, want), p.Name)
	}
	return m
}

// Every family that gomoe writes trains, with nearly the same first loss on every mesh, and opens.
func TestFamilies(t *testing.T) {
	text := corpus(t, "a.txt", prose)
	for _, family := range written() {
		sparse := family != "llama" && family != "qwen3"
		more, mesh := "", "dp=2"
		if sparse {
			more, mesh = `, "even": 0`, "ep=2"
		}
		if family == "deepseek_v3" || family == "glm4_moe" {
			more, mesh = `, "even": 0.001, "dtype": "bf16"`, "dp=2,ep=2"
		}
		var first string
		for _, mesh := range []string{"", mesh} {
			out := filepath.Join(t.TempDir(), "out")
			model := fmt.Sprintf(`{"model_type": %q, %s`, family, small)
			if strings.HasPrefix(family, "qwen2_moe") {
				model += `, "shared_expert_intermediate_size": 8`
			}
			if _, is := mustUsual(t, family)["moe_intermediate_size"]; is {
				model += `, "moe_intermediate_size": 8`
			}
			said, err := follow(t, fmt.Sprintf(`{"model": %s}, "data": {"files": [%q]}, "mesh": %q, "steps": 2, "batch": 4, "length": 16, "save_every": 2%s}`, model, text, mesh, more), out, false)
			require.NoError(t, err, family)
			require.Contains(t, said, "loss ", family)
			require.Contains(t, said, "on held-out text", family)
			got := losses(t, out)
			require.Len(t, got, 2, family)
			if first == "" {
				first = got[0]
			}
			alike(t, first, got[0])
			m := same(t, out)
			require.Equal(t, []any{family, sparse, 16, 256}, []any{m.Family.Name, m.Experts > 0, m.Context, m.Vocab})
		}
	}
}

func mustUsual(t *testing.T, family string) map[string]any {
	t.Helper()
	of, ok := usual(family)
	require.True(t, ok)
	return of
}

// config.json says what transformers would default to the published sizes, and has floats as floats.
func TestConfig(t *testing.T) {
	for family, want := range map[string][]string{
		"deepseek_v3": {`"q_lora_rank": null`, `"n_group": 1,`, `"routed_scaling_factor": 1.0,`, `"num_key_value_heads": 4,`, `"norm_topk_prob": true`, `"architectures": [
    "DeepseekV3ForCausalLM"`},
		"deepseek_v2": {`"topk_method": "greedy"`, `"norm_topk_prob": false`},
		"qwen3_moe":   {`"head_dim": 32,`, `"rope_theta": 10000.0,`, `"decoder_sparse_step": 1,`, `"mlp_only_layers": [],`, `"Qwen3MoeForCausalLM"`},
		"mixtral":     {`"sliding_window": null`, `"pad_token_id": null`, `"eos_token_id": null`, `"tie_word_embeddings": false`, `"torch_dtype": "float32"`},
		"glm4_moe":    {`"partial_rotary_factor": 0.5`, `"use_qk_norm": false`, `"attention_bias": false`},
	} {
		s, err := Parse("s.json", fmt.Appendf(nil, `{"model": {"model_type": %q}}`, family))
		require.NoError(t, err)
		tok, _, err := s.tokenizer()
		require.NoError(t, err)
		_, err = s.open(tok)
		require.NoError(t, err)
		text, err := json.MarshalIndent(s.config(), "", "  ")
		require.NoError(t, err)
		for _, w := range want {
			require.Contains(t, string(text), w, family)
		}
	}
}

// A run goes on, on another mesh too, with the losses of one that does not pause. Another model is refused.
func TestTrain(t *testing.T) {
	text := corpus(t, "a.txt", prose)
	settings := func(steps int, mesh, model string) string {
		return fmt.Sprintf(`{"model": {%s%s}, "data": {"files": [%q]}, "mesh": %q, "steps": %d, "batch": 4, "length": 16, "save_every": 2, "eval_every": 0,
			"optimizer": {"name": "muon"}, "rate": {"name": "wsd", "warmup": 1, "decay": 1}}`, small, model, text, mesh, steps)
	}
	dir := t.TempDir()
	whole, cut, moved := filepath.Join(dir, "whole"), filepath.Join(dir, "cut"), filepath.Join(dir, "moved")
	_, err := follow(t, settings(4, "", ""), whole, false)
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(cut, os.DirFS(whole)))
	require.NoError(t, os.RemoveAll(filepath.Join(cut, "checkpoints", "step-00000004")))
	require.NoError(t, os.CopyFS(moved, os.DirFS(cut)))

	_, err = follow(t, settings(4, "", ""), cut, false)
	require.ErrorContains(t, err, "an earlier run has left a checkpoint of step 2")
	said, err := follow(t, settings(4, "", ""), cut, true)
	require.NoError(t, err)
	require.Contains(t, said, "resumed after step 2, from "+filepath.Join(cut, "checkpoints", "step-00000002")+"\n")
	require.Equal(t, losses(t, whole), losses(t, cut))
	a, err := os.ReadFile(filepath.Join(whole, "model.safetensors"))
	require.NoError(t, err)
	b, err := os.ReadFile(filepath.Join(cut, "model.safetensors"))
	require.NoError(t, err)
	require.Equal(t, a, b)

	said, err = follow(t, settings(4, "dp=2,ep=2", ""), moved, true)
	require.NoError(t, err)
	require.Contains(t, said, `, with mesh "dp=2,ep=2" instead of ""`)
	alike(t, losses(t, whole)[2], losses(t, moved)[2])
	same(t, moved)

	_, err = follow(t, settings(4, "", `, "num_local_experts": 4`), moved, true)
	require.ErrorContains(t, err, "give that, or another folder")
}

// A stop ends a run in order: what has been done is written, and the run has not succeeded.
func TestStop(t *testing.T) {
	s, err := Parse("s.json", fmt.Appendf(nil, `{"model": {%s}, "data": {"files": [%q]}, "steps": 3, "batch": 2, "length": 16}`, small, corpus(t, "a.txt", prose)))
	require.NoError(t, err)
	stop, end := context.WithCancel(t.Context())
	out := filepath.Join(t.TempDir(), "out")
	err = Run(t.Context(), stop, s, Options{Out: out, Stdout: hears{func(text string) {
		if strings.Contains(text, "1/3  loss") {
			end()
		}
	}}})
	var interrupted *lm.InterruptedError
	require.ErrorAs(t, err, &interrupted)
	require.Equal(t, lm.InterruptedError{Done: 1, Steps: 3}, *interrupted)
	require.FileExists(t, filepath.Join(out, "model.safetensors"))
	for _, resume := range []bool{false, true} { // there is nothing to go on from
		err = Run(t.Context(), t.Context(), s, Options{Out: out, Resume: resume})
		require.ErrorContains(t, err, "an earlier run has left "+filepath.Join(out, "model.safetensors")+", and no checkpoint to go on from; give -overwrite to write over it, or another folder")
	}
	err = Run(t.Context(), stop, s, Options{Out: out + "-none"})
	require.ErrorIs(t, err, context.Canceled)
}

// A run whose first checkpoint cannot be written leaves its model, and goes on nevertheless: from step 1, over the model. Where
// a run ends well its model is protected as ever.
func TestFirstSaveFails(t *testing.T) {
	s, err := Parse("s.json", fmt.Appendf(nil, `{"model": {%s}, "data": {"files": [%q]}, "steps": 4, "batch": 2, "length": 16, "save_every": 2}`, small, corpus(t, "a.txt", prose)))
	require.NoError(t, err)
	whole := filepath.Join(t.TempDir(), "whole")
	require.NoError(t, Run(t.Context(), t.Context(), s, Options{Out: whole, Stdout: io.Discard}))
	want, err := os.ReadFile(filepath.Join(whole, "model.safetensors"))
	require.NoError(t, err)
	for _, every := range []int{2, 4} { // the first checkpoint of two, and the only one
		s.SaveEvery = every
		out := filepath.Join(t.TempDir(), "out")
		model, saves, mark := filepath.Join(out, "model.safetensors"), filepath.Join(out, "checkpoints"), filepath.Join(out, train.RescuedName)
		err = Run(t.Context(), t.Context(), s, Options{Out: out, Stdout: hears{func(text string) {
			if strings.Contains(text, "1/4  loss") {
				require.NoError(t, os.WriteFile(saves, nil, 0o666))
			}
		}}})
		require.ErrorContains(t, err, "of 4 steps are done: ", every)
		require.FileExists(t, model)
		require.FileExists(t, mark)
		require.NoError(t, os.Remove(saves))
		err = Run(t.Context(), t.Context(), s, Options{Out: out})
		require.ErrorContains(t, err, "an earlier run has left "+model+" when it failed, and no checkpoint; give -resume to begin again and write over it, or another folder")
		require.NoError(t, Run(t.Context(), t.Context(), s, Options{Out: out, Resume: true, Stdout: io.Discard}), every)
		got, err := os.ReadFile(model)
		require.NoError(t, err)
		require.Equal(t, want, got, every)
		require.NoFileExists(t, mark)
		require.NoError(t, os.RemoveAll(saves))
		for _, resume := range []bool{false, true} {
			err = Run(t.Context(), t.Context(), s, Options{Out: out, Resume: resume})
			require.ErrorContains(t, err, "an earlier run has left "+model+", and no checkpoint to go on from; give -overwrite")
		}
	}
}

// hears passes on what is written.
type hears struct{ tells func(string) }

func (a hears) Write(p []byte) (int, error) { a.tells(string(p)); return len(p), nil }

// Where nothing is said the rate rises over a tenth of the steps, and at most 100. A run that goes on has the steps that it
// began with, whatever they would be now.
func TestWarmup(t *testing.T) {
	settings := func(steps int, more string) string {
		return fmt.Sprintf(`{"model": {"model_type": "olmoe", %s}, "data": {"files": [%q]}, "steps": %d, "batch": 1, "length": 8, "save_every": 10, "eval_every": 0, "rate": {"name": "linear", "peak": 0.001, "floor": 1%s}}`, small, corpus(t, "a.txt", prose), steps, more)
	}
	for steps, want := range map[int]int{9: 0, 20: 2, 999: 99, 1000: 100, 1500: 100} {
		s, err := Parse("s.json", []byte(settings(steps, "")))
		require.NoError(t, err)
		s.warm(nil)
		require.Equal(t, want, s.Rate.Warmup)
	}
	out := filepath.Join(t.TempDir(), "out")
	_, err := follow(t, settings(20, ""), out, false)
	require.NoError(t, err)
	require.Equal(t, []string{"0.0005", "0.001", "0.001"}, column(t, out, "lr")[:3])
	out = filepath.Join(t.TempDir(), "out")
	_, err = follow(t, settings(20, `, "warmup": 100`), out, false)
	require.NoError(t, err)
	said, err := follow(t, settings(30, ""), out, true)
	require.NoError(t, err)
	require.Contains(t, said, ", with steps 30 instead of 20\n")
	require.Equal(t, "0.0003", column(t, out, "lr")[29])
}

// Texts with a tokenizer are cut into tokens, of which only some are to be predicted; others are held out.
func TestTokens(t *testing.T) {
	file, err := tokenizer.Bytes()
	require.NoError(t, err)
	tok := corpus(t, "tokenizer.json", string(file))
	lines := strings.Repeat(`{"prompt": "Which expert?", "completion": " The second one, and the fourth."}`+"\n", 30)
	out, texts := filepath.Join(t.TempDir(), "out"), corpus(t, "a.jsonl", lines)
	settings := fmt.Sprintf(`{"model": {"model_type": "olmoe", %s}, "data": {"files": [%q], "held_out": [%q], "tokenizer": %q}, "steps": 3, "batch": 2, "length": 16, "save_every": 3, "eval_every": 1}`,
		small, texts, corpus(t, "b.txt", prose), tok)
	s, err := Parse("s.json", []byte(settings))
	require.NoError(t, err)
	stop, end := context.WithCancelCause(t.Context())
	why := errors.New("the reason")
	end(why)
	require.ErrorIs(t, Run(t.Context(), stop, s, Options{Out: out}), why)
	require.NoFileExists(t, filepath.Join(out, "train.tokens"))
	said, err := follow(t, settings, out, false)
	require.NoError(t, err)
	require.Contains(t, said, "tokens of 30 documents")
	require.Contains(t, said, "on held-out text")
	same(t, out)
	got, err := os.ReadFile(filepath.Join(out, "tokenizer.json"))
	require.NoError(t, err)
	require.Equal(t, string(file), string(got))

	require.NoError(t, os.WriteFile(texts, []byte(lines+`{"text": "aaaa"}`+"\n"), 0o666))
	said, err = follow(t, strings.Replace(settings, `"steps": 3`, `"steps": 4`, 1), out, true)
	require.NoError(t, err)
	require.Regexp(t, `, with steps 4 instead of 3, text\.documents 31 instead of 30, text\.tokens \d+ instead of \d+\n`, said, "other texts are named by what differs")
	for _, x := range []struct{ text, want string }{
		{`{"prompt": "a", "completion": ""}`, "s.json: data.files: there is no token to learn: texts have one token, completions are empty"},
		{"{}", "s.json: data.files: data: 1 broken lines"},
	} {
		settings = fmt.Sprintf(`{"model": {%s}, "data": {"files": [%q], "tokenizer": %q}, "length": 1}`, small, corpus(t, "c.jsonl", x.text), tok)
		_, err = follow(t, settings, out+"-wrong", false)
		require.ErrorContains(t, err, x.want)
		require.Equal(t, 1, strings.Count(err.Error(), "s.json: data"), "it is said once: %v", err)
	}
}

// Chat templates get data.date, or 2000-01-01.
func TestDate(t *testing.T) {
	file, err := tokenizer.Bytes()
	require.NoError(t, err)
	folder := filepath.Dir(corpus(t, "tokenizer.json", string(file)))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "chat_template.jinja"), []byte(`{{ '!' * strftime_now('%y')|int }}{% for m in messages %}{{ m.content }}{% endfor %}`), 0o666))
	for date, tokens := range map[string]string{"": "2 tokens", `, "date": "2026-11-29"`: "28 tokens"} {
		s, err := Parse("s.json", fmt.Appendf(nil, `{"model": {%s}, "data": {"files": [%q], "tokenizer": %q%s}, "batch": 1, "length": 1}`, small, corpus(t, "a.jsonl", `{"question": "a", "answer": "b"}`), folder, date))
		require.NoError(t, err)
		tok, _, err := s.tokenizer()
		require.NoError(t, err)
		r, err := s.tokens(t.Context(), t.TempDir(), tok)
		require.NoError(t, err)
		require.NoError(t, r.close())
		require.Contains(t, r.about, tokens+" of 1 documents")
	}
}

// The held-out loss is of all tokens of the files, each once, or of as many batches as are said; the mesh does not change it.
func TestHeldOut(t *testing.T) {
	file, err := tokenizer.Bytes()
	require.NoError(t, err)
	tok, text := corpus(t, "tokenizer.json", string(file)), corpus(t, "a.txt", prose)
	a, b := corpus(t, "b.txt", prose[:5*16]), corpus(t, "c.txt", strings.Repeat("Other words, of which there are fewer. ", 3)[:4*16]) // whole sequences
	loss := func(mesh, more string, files ...string) float64 {
		list, err := json.Marshal(files)
		require.NoError(t, err)
		out := filepath.Join(t.TempDir(), "out")
		_, err = follow(t, fmt.Sprintf(`{"model": {"model_type": "olmoe", %s}, "data": {"files": [%q], "tokenizer": %q, "held_out": %s%s}, "mesh": %q, "steps": 1, "batch": 2, "length": 16, "eval_every": 1}`,
			small, text, tok, list, more, mesh), out, false)
		require.NoError(t, err)
		x, err := strconv.ParseFloat(column(t, out, "held_out")[0], 64)
		require.NoError(t, err)
		return x
	}
	both := loss("", "", a, b)
	require.InDelta(t, (79*loss("", "", a)+63*loss("", "", b))/(79+63), both, 1e-5, "the last token of a document predicts none")
	require.InDelta(t, both, loss("", `, "held_out_batches": 5`, a, b), 0, "there are four and a half")
	require.InDelta(t, both, loss("dp=2", "", a, b), 1e-5)
	require.InDelta(t, both, loss("ep=2", "", a, b), 1e-5)
	some := loss("", `, "held_out_batches": 4`, a, b)
	require.Greater(t, math.Abs(both-some), 1e-4)
	require.InDelta(t, some, loss("dp=2", `, "held_out_batches": 4`, a, b), 1e-5)

	nothing := corpus(t, "d.jsonl", strings.Repeat(`{"prompt": "What does it learn of this?", "completion": ""}`+"\n", 9))
	_, err = follow(t, fmt.Sprintf(`{"model": {%s}, "data": {"files": [%q], "tokenizer": %q, "held_out": [%q]}, "steps": 1, "batch": 2, "length": 16}`, small, text, tok, nothing), filepath.Join(t.TempDir(), "out"), false)
	require.ErrorContains(t, err, "held-out text has no token that is to be predicted")
	_, err = follow(t, fmt.Sprintf(`{"model": {%s}, "data": {"files": [%q], "tokenizer": %q, "held_out": [%q]}, "steps": 1, "batch": 2, "length": 16}`, small, text, tok, corpus(t, "e.txt", "short")), filepath.Join(t.TempDir(), "out"), false)
	require.ErrorContains(t, err, "s.json: data.held_out, and length is 16: data: 5 tokens are no sequence of 16; want more texts, or shorter sequences")
}

// A run that goes on says which members of the settings differ. The context length is that of the checkpoint, or of longer
// sequences, unless the settings give another; other moments are an error that names the setting.
func TestGoesOnOtherwise(t *testing.T) {
	text, first := corpus(t, "a.txt", prose), filepath.Join(t.TempDir(), "first")
	settings := func(steps, length int, model, more string) string {
		return fmt.Sprintf(`{"model": {"model_type": "olmoe"%s, %s}, "data": {"files": [%q]}, "steps": %d, "batch": 4, "length": %d, "save_every": 1%s}`, model, small, text, steps, length, more)
	}
	_, err := follow(t, settings(1, 32, "", ""), first, false)
	require.NoError(t, err)
	from := filepath.Join(first, "checkpoints", "step-00000001")
	for _, c := range []struct {
		length            int
		model, more, want string
		context           float64 // 0 for an error
	}{
		{32, "", `, "rate": {"peak": 0.1}, "optimizer": {"decay": 0.2, "clip": 2}`, "optimizer.clip 2 instead of 1, optimizer.decay 0.2 instead of 0.1, rate.peak 0.1 instead of 0.003, steps 2 instead of 1\n", 32},
		{16, "", "", "with length 16 instead of 32, steps 2 instead of 1\n", 32},
		{64, "", `, "mesh": "ep=2"`, `with length 64 instead of 32, mesh "ep=2" instead of "", steps 2 instead of 1` + "\n", 64},
		{16, `, "max_position_embeddings": 32`, "", "with length 16 instead of 32, steps 2 instead of 1\n", 32},
		{16, `, "max_position_embeddings": 48`, "", "model.max_position_embeddings 48: the checkpoint " + from + " is of a run with 32; give that, or another folder", 0},
		{32, `, "rms_norm_eps": 1e-6, "rope_theta": 500`, "", "model.rms_norm_eps 1e-06, model.rope_theta 500.0: the checkpoint " + from + " is of a run with 1e-05, 10000.0; give these, or another folder", 0},
		{32, "", `, "optimizer": {"moments": "bf16"}`, `optimizer.moments "bf16": the checkpoint ` + from + ` is of a run with "f32"; give that, or another folder`, 0},
		{32, "", `, "optimizer": {"name": "lion"}`, `optimizer.name "lion": the checkpoint ` + from + ` is of a run with "adamw"; give that, or another folder`, 0},
		{32, "", `, "masters": true, "dtype": "bf16"`, "dtype bf16, masters true: the checkpoint " + from + " is of a run with f32, false; give these, or another folder", 0},
	} {
		out := t.TempDir()
		require.NoError(t, os.CopyFS(out, os.DirFS(first)))
		said, err := follow(t, settings(2, c.length, c.model, c.more), out, true)
		if c.context == 0 {
			require.ErrorContains(t, err, strings.ReplaceAll(c.want, first, out))
			continue
		}
		require.NoError(t, err)
		require.Contains(t, said, c.want)
		text, err := os.ReadFile(filepath.Join(out, "config.json"))
		require.NoError(t, err)
		var config map[string]any
		require.NoError(t, json.Unmarshal(text, &config))
		require.Equal(t, c.context, config["max_position_embeddings"])
	}
}

// Routes are of one run: a folder with those of another one is refused, also when a run goes on, and -overwrite removes
// them. A resumed run keeps those up to its checkpoint and removes the others.
func TestRecordsApart(t *testing.T) {
	text, dir := corpus(t, "a.txt", prose), t.TempDir()
	routes := filepath.Join(dir, "routes")
	run := func(out string, seed, steps int, o Options) error {
		s, err := Parse("s.json", fmt.Appendf(nil, `{"model": {"model_type": "olmoe", %s}, "data": {"files": [%q]}, "seed": %d, "steps": %d, "batch": 4, "length": 16, "save_every": 2}`, small, text, seed, steps))
		require.NoError(t, err)
		o.Out, o.Record = filepath.Join(dir, out), routes
		return Run(t.Context(), t.Context(), s, o)
	}
	steps := func() (all string) {
		there, err := filepath.Glob(filepath.Join(routes, "step-*"))
		require.NoError(t, err)
		for _, path := range there {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			all += fmt.Sprintf("%s %x\n", filepath.Base(path), sha256.Sum256(text))
		}
		return all
	}
	another := "pretrain: train: routes: " + routes + " has routes of another run; give -overwrite to remove them, or another folder"
	require.NoError(t, run("one", 1, 4, Options{Resume: true}))
	four := steps()
	require.EqualError(t, run("same", 1, 4, Options{}), another)
	require.EqualError(t, run("other", 2, 3, Options{Resume: true}), another)
	require.EqualError(t, run("other", 2, 3, Options{}), another)
	require.Equal(t, four, steps())
	require.NoFileExists(t, filepath.Join(dir, "other", "metrics.csv"))

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "one", "checkpoints", "step-00000004")))
	require.NoError(t, run("one", 1, 3, Options{Resume: true, Overwrite: true}), "goes on after step 2, and ends before step 4")
	three := steps()
	require.NotEmpty(t, three)
	require.Truef(t, strings.HasPrefix(four, three) && len(three)*4 == len(four)*3, "%s, of\n%s", three, four)
	require.NoError(t, run("one", 1, 4, Options{Resume: true}), "the steps have changed twice")
	require.Equal(t, 4, strings.Count(steps(), "\n"))

	require.ErrorContains(t, run("other", 1, 3, Options{Overwrite: true, Replay: filepath.Join(routes, ".")}), "routes are replayed from "+routes+" and recorded into it")
	require.NoError(t, run("other", 2, 3, Options{Overwrite: true}))
	require.Equal(t, 3, strings.Count(steps(), "\n"))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "other", "checkpoints")))
	require.NoError(t, run("other", 2, 3, Options{Resume: true, Overwrite: true}), "a run that goes on without a checkpoint begins again")
}

// A run that replays the choices of another one has its bits; with other weights it sends tokens to the same experts, on
// every mesh.
func TestReplay(t *testing.T) {
	for _, model := range []string{"olmoe", "gpt_oss"} {
		t.Run(model, func(t *testing.T) { replay(t, model) })
	}
}

func replay(t *testing.T, model string) {
	text, dir := corpus(t, "a.txt", prose), t.TempDir()
	var said strings.Builder
	run := func(name, mesh string, seed int, record, replay string) string {
		s, err := Parse("s.json", fmt.Appendf(nil, `{"model": {"model_type": %q, %s}, "data": {"files": [%q]}, "mesh": %q, "seed": %d, "steps": 3, "batch": 4, "length": 16, "eval_every": 2}`, model, small, text, mesh, seed))
		require.NoError(t, err)
		out := filepath.Join(dir, name)
		var all strings.Builder
		require.NoError(t, Run(t.Context(), t.Context(), s, Options{Out: out, Record: record, Replay: replay, Stdout: &all}))
		for line := range strings.Lines(all.String()) {
			if strings.HasPrefix(line, "routes: ") {
				said.WriteString(line)
			}
		}
		return out
	}
	read := func(names ...string) string {
		text, err := os.ReadFile(filepath.Join(names...))
		require.NoError(t, err)
		return string(text)
	}
	routes, again, plain := filepath.Join(dir, "routes"), filepath.Join(dir, "again"), filepath.Join(dir, "plain")
	one := run("one", "", 1, routes, "")
	two := run("two", "", 1, "", routes)
	require.Equal(t, read(one, "model.safetensors"), read(two, "model.safetensors"))
	require.Equal(t, losses(t, one), losses(t, two))

	run("own", "", 2, plain, "")
	require.Empty(t, said.String(), "settings that differ")
	run("forced", "dp=2,ep=2", 2, again, routes)
	require.Equal(t, "routes: those of "+routes+" are of another run, with mesh \"dp=2,ep=2\" instead of \"\", seed 2 instead of 1\n", said.String())
	for step := 1; step <= 3; step++ {
		name := fmt.Sprintf("step-%08d.safetensors", step)
		require.NotEqual(t, read(routes, name), read(plain, name), "a run of another seed chooses as this one")
		require.Equal(t, read(routes, name), read(again, name))
	}

	// In microbatches, too, choices are those of the batch's tokens in order.
	again = filepath.Join(dir, "parts")
	s, err := Parse("s.json", fmt.Appendf(nil, `{"model": {"model_type": "olmoe", %s}, "data": {"files": [%q]}, "mesh": "ep=2", "microbatches": 2, "steps": 3, "batch": 4, "length": 16}`, small, text))
	require.NoError(t, err)
	require.NoError(t, Run(t.Context(), t.Context(), s, Options{Out: filepath.Join(dir, "cut"), Record: again, Replay: routes}))
	require.Equal(t, read(routes, "step-00000003.safetensors"), read(again, "step-00000003.safetensors"))

	s, err = Parse("s.json", fmt.Appendf(nil, `{"model": {"model_type": "olmoe", %s}, "data": {"files": [%q]}, "steps": 4, "batch": 4, "length": 16}`, small, text))
	require.NoError(t, err)
	err = Run(t.Context(), t.Context(), s, Options{Out: filepath.Join(dir, "long"), Replay: routes})
	require.EqualError(t, err, "pretrain: s.json: train: routes: "+routes+" has no step-00000004.safetensors, want the choices of all 4 steps")
	require.NoFileExists(t, filepath.Join(dir, "long", "metrics.csv"), "it is found before the first step")

	// A file is of its step.
	swapped := filepath.Join(dir, "swapped")
	require.NoError(t, os.CopyFS(swapped, os.DirFS(routes)))
	require.NoError(t, os.WriteFile(filepath.Join(swapped, "step-00000003.safetensors"), []byte(read(routes, "step-00000001.safetensors")), 0o666))
	_, err = train.Routes{Path: swapped}.Load(3)
	require.EqualError(t, err, "train: routes: "+filepath.Join(swapped, "step-00000003.safetensors")+": the choices are of step 1, want those of step 3")

	// An expert that a layer does not have is an error with the file and the step.
	all, err := train.Routes{Path: routes}.Load(1)
	require.NoError(t, err)
	var wrong []tensor.Source
	for name, a := range all {
		array.Data[int32](a)[5] = 8
		wrong = append(wrong, tensor.Of(strings.TrimPrefix(name, train.ChoicesPrefix), a))
	}
	path := filepath.Join(again, "step-00000001.safetensors")
	require.NoError(t, safetensors.Write(path, nil, wrong))
	s.Steps = 3
	err = Run(t.Context(), t.Context(), s, Options{Out: filepath.Join(dir, "range"), Replay: again})
	require.ErrorContains(t, err, "pretrain: s.json: train: routes: "+path+": step 1: tensor \"")
	require.ErrorContains(t, err, "has expert 8 at element 5, want 0 to 7")
	layers := func(n string) string { return strings.Replace(small, `layers": 2`, `layers": `+n, 1) }
	for config, c := range map[string]struct{ more, want string }{
		layers("1"):                          {"", `tensor "model.layers.1.mlp" is of another model, whose layers of experts this one does not have; want those of ["model.layers.0.mlp"]`},
		layers("3"):                          {"", `there is no tensor "model.layers.2.mlp"; the routes are of another model, want those of ["model.layers.0.mlp", "model.layers.1.mlp", "model.layers.2.mlp"]`},
		small:                                {`, "microbatches": 2, "batch": 2`, `tensor "model.layers.0.mlp" is i32[4,16,2], want i32[2,16,2]: sequences of a batch, tokens of a sequence, experts of a token`},
		small + `, "num_experts_per_tok": 3`: {"", `tensor "model.layers.0.mlp" is i32[4,16,2], want i32[4,16,3]: sequences of a batch`},
	} {
		batch := `, "batch": 4`
		if c.more != "" {
			batch = ""
		}
		s, err = Parse("s.json", fmt.Appendf(nil, `{"model": {"model_type": "olmoe", %s}, "data": {"files": [%q]}, "steps": 3, "length": 16%s%s}`, config, text, batch, c.more))
		require.NoError(t, err)
		err = Run(t.Context(), t.Context(), s, Options{Out: filepath.Join(dir, "another"), Replay: plain})
		require.ErrorContains(t, err, "pretrain: s.json: train: routes: "+filepath.Join(plain, "step-00000001.safetensors")+": step 1: ")
		if model == "olmoe" {
			require.ErrorContains(t, err, c.want)
		}
	}
	s, err = Parse("s.json", fmt.Appendf(nil, `{"model": {"model_type": "llama", %s}, "data": {"files": [%q]}, "steps": 3, "batch": 4, "length": 16}`, small, text))
	require.NoError(t, err)
	err = Run(t.Context(), t.Context(), s, Options{Out: filepath.Join(dir, "dense"), Replay: routes})
	require.ErrorContains(t, err, "the model has no layer of experts, whose choices could be recorded or replayed")
}
