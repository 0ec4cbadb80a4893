package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/tokenizer"
	"github.com/gomoe/gomoe/world"
)

// fewTokens returns the folder of a small model with a tokenizer of as many tokens as it has.
func fewTokens(t *testing.T) string {
	t.Helper()
	model := filepath.Join(t.TempDir(), "model")
	require.NoError(t, os.Mkdir(model, 0o755))
	for _, name := range []string{safetensors.FileName, checkpoint.ConfigName} {
		b, err := os.ReadFile(filepath.Join("../../models/testdata/olmoe", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(model, name), b, 0o644))
	}
	b, err := tokenizer.Bytes()
	require.NoError(t, err)
	var f map[string]any
	require.NoError(t, json.Unmarshal(b, &f))
	ids := f["model"].(map[string]any)["vocab"].(map[string]any)
	for text, id := range ids {
		if int(id.(float64)) >= 40 {
			delete(ids, text)
		}
	}
	b, err = json.Marshal(f)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(model, tokenizer.FileName), b, 0o644))
	return model
}

// The command trains an adapter, says what it takes, writes the merged model, and refuses what is wrong.
func TestFinetune(t *testing.T) {
	dir := t.TempDir()
	model, text := fewTokens(t), filepath.Join(dir, "a.jsonl")
	require.NoError(t, os.WriteFile(text, []byte(`{"text": "! # ! # ! # !"}`+"\n"+`{"text": "# ! # !"}`), 0o644))
	tune := func(args ...string) (int, string, string) {
		var out, wrong bytes.Buffer
		code := run(context.Background(), append([]string{"finetune"}, args...), nil, &out, &wrong)
		return code, out.String(), wrong.String()
	}
	out, merged := filepath.Join(dir, "tuned"), filepath.Join(dir, "merged")
	small := []string{model, "-data", text, "-held-out", text, "-steps", "6", "-batch", "2", "-length", "8", "-lr", "0.02", "-warmup", "1", "-rank", "2", "-targets", "q_proj,v_proj"}
	code, said, wrong := tune(append(small, "-out", out, "-merge", merged, "-mesh", "ep=2")...)
	require.Zero(t, code, wrong)
	for _, want := range []string{"2 documents, 20 tokens", "in 4 adapters beside 16016 of the model", " for 2 ranks: state ", "at the beginning", "after 6 steps", "the adapter is in " + out, "the model with the adapter is in " + merged} {
		require.Contains(t, said, want)
	}
	a, err := peft.Open(out, peft.Layout{Experts: true})
	require.NoError(t, err)
	require.Equal(t, 2, a.LoRA.Rank)
	require.NoError(t, a.Close())
	c, err := checkpoint.Open(merged)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	// A model and texts are enough.
	t.Chdir(dir)
	code, said, wrong = tune(model, "-data", text, "-steps", "1", "-save-every", "1")
	require.Zero(t, code, wrong)
	require.Contains(t, said, "1 steps, 768 tokens in ", "8 sequences of the 96 tokens that the model takes")
	require.Contains(t, said, "the adapter is in "+filepath.Join("out", "finetune")+"\n")
	for _, x := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{model}, 2, "no -data, want files of texts or chats"},
		{[]string{model, "-data", text, "-out", ""}, 2, "no -out, want a folder"},
		{[]string{model, "-data", text, "-length", "97", "-out", out + "-97"}, 1, "sequences of 97 tokens, and the model takes 96"},
		{[]string{model, "-data", text + ",", "-out", out}, 2, "want names with commas between"},
		{[]string{"-data", text, "-out", out}, 2, "want one: the folder of a model"},
		{append(small, "-out", out, "-steps", "0"), 2, "-steps 0"},
		{append(small, "-out", out, "-merge-type", "q9"), 2, "want f32, f16"},
		{append(small, "-out", out, "-date", "29.11."), 2, "want a date, such as 2026-11-29"},
		{append(small, "-out", out, "-keep", "0"), 2, "-keep 0: want at least 1"},
		{append(small, "-out", out, "-keep", "5"), 2, "-keep is for checkpoints of -save-every, which is not given"},
		{append(small, "-out", out, "-broken", "-1"), 2, "-broken -1: want at least 0"},
		{append(small, "-out", out, "-alpha", "0"), 2, "-alpha 0: want a number above 0"},
		{append(small, "-out", out, "-alpha", "-32"), 2, "-alpha -32: want a number above 0"},
		{append(small, "-out", out, "-all"), 2, "is for adapters, and -all trains all weights"},
		{append(small, "-out", out, "-from", out), 2, "the adapter in -from " + out + " says that"},
		{append(small, "-out", out, "-merge-type", "f16"), 2, "-merge-type is for -merge, which is not given"},
		{[]string{model, "-data", text, "-eval", "2"}, 2, "-eval is for texts of -held-out, which is not given"},
		{append(small, "-out", out+"-x", "-targets", "x_proj"), 1, `target "x_proj" is no matrix`},
		{append(small, "-out", out), 1, "an earlier run has left " + filepath.Join(out, peft.FileName) + ", and no checkpoint to go on from; give -overwrite to write over it, or another folder"},
		{append(small, "-out", out, "-overwrite"), 0, ""},
		{append(small, "-out", out, "-mesh", "dp=3"), world.StatusMisfit, "want a multiple"},
		{append(small, "-out", out+"-micro", "-microbatches", "3", "-batch", "4"), 1, "and 3 microbatches, want a multiple of 3"},
		// A position in gomoe's own code is its scope.
		{append(small, "-out", out+"-exact", "-mesh", "ep=3", "-batch", "3", "-exact"), 1, "finetune: batches of 3 sequences for 8 blocks of exact sums and 1 microbatches, want a multiple of 8"},
		{append(small, "-out", out+"-large", "-batch", "1000000000"), 1, "finetune: batch of 1000000000 sequences of 8 tokens in 1 microbatches: a microbatch has"},
		{append(small, "-out", out+"-embed", "-targets", "embed_tokens"), 1, "finetune: lora: model.embed_tokens is a table of tokens"},
	} {
		code, _, wrong := tune(x.args...)
		if code != x.code || !strings.Contains(wrong, x.want) {
			t.Errorf("%q: status %d, %s\nwant %d, %s", x.args, code, wrong, x.code, x.want)
		}
		require.NotRegexp(t, `\.go:\d`, wrong)
	}
}

// A chat template gets the date of -date, or 2000-01-01. A resumed run says if it is another one.
func TestFinetuneDate(t *testing.T) {
	dir, model := t.TempDir(), fewTokens(t)
	require.NoError(t, os.WriteFile(filepath.Join(model, "chat_template.jinja"), []byte(`{{ '!' * (strftime_now('%y')|int + strftime_now('%d')|int) }}{% for m in messages %}{{ m.content }}{% endfor %}`), 0o644))
	text := filepath.Join(dir, "a.json")
	require.NoError(t, os.WriteFile(text, []byte(`[{"question": "#", "answer": "$"}]`), 0o644))
	args := []string{"finetune", model, "-data", text, "-out", filepath.Join(dir, "out"), "-steps", "1", "-save-every", "1", "-batch", "1", "-length", "16"}
	for _, x := range []struct {
		more []string
		says string
	}{{nil, "1 documents, 3 tokens"}, {[]string{"-date", "2005-01-07", "-resume", "-steps", "2"}, "1 documents, 14 tokens"}} {
		var out, wrong bytes.Buffer
		require.Zero(t, run(context.Background(), append(args, x.more...), nil, &out, &wrong), wrong.String())
		require.Contains(t, out.String(), x.says)
		require.Equal(t, x.more != nil, strings.Contains(out.String(), "-date 2005-01-07 instead of 2000-01-01"), out.String())
	}
}
