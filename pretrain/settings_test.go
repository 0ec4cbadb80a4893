package pretrain

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
)

// A file without settings is moe_lm's run.
func TestUsual(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.json")
	require.NoError(t, os.WriteFile(path, []byte("{}\n"), 0o666))
	s, err := Read(path)
	require.NoError(t, err)
	tok, _, err := s.tokenizer()
	require.NoError(t, err)
	m, err := s.open(tok)
	require.NoError(t, err)
	require.Equal(t, []int{256, 4, 8, 2, 128, 1500, 16}, []int{m.Vocab, m.Layers, m.Experts, m.TopK, s.Length, s.Steps, s.Batch})
	require.Equal(t, graph.F32, s.DType)
	_, err = Parse("s.json", []byte(`{"keep": 2, "eval_every": 150, "rate": {"name": "constant", "decay": 300, "floor": 0.1, "warmup": 0}}`))
	require.NoError(t, err, "defaults are no settings without effect")
	s, err = Parse("s.json", []byte(`{"steps": 1e2}`))
	require.NoError(t, err)
	require.Equal(t, 100, s.Steps)
	_, err = Read(path + "x")
	require.ErrorContains(t, err, "no such file")
}

// Wrong settings are errors that name the file, the member, what it has and what is wanted.
func TestReadErrors(t *testing.T) {
	for text, want := range map[string]string{
		``:                              "s.json: the file is empty, want an object, such as {}",
		" \n":                           "s.json: the file is empty, want an object, such as {}",
		`{"data": {"files": []}}`:       "s.json: data.files is [], want the names of files; or leave it out",
		`{"data": {"files": [""]}}`:     `s.json: data.files is [""], want the names of files`,
		`[]`:                            "s.json: the file is [], want an object",
		`{} {}`:                         "s.json: column 4: invalid character '{' after top-level value",
		`{"steps": 3`:                   "s.json: ends in the middle; is it complete?",
		`{"steps": 3, "steps": 4}`:      `s.json: column 14: "steps" is there twice in one object`,
		`{"stesp": 3}`:                  "s.json: there is no setting stesp, want one of balance batch",
		`{"rate": {"peek": 3}}`:         "s.json: there is no setting rate.peek, want one of decay floor name peak warmup; did you mean peak?",
		`{"data": {"file": "a"}}`:       "there is no setting data.file, want one of date files",
		`{"steps": 0}`:                  "s.json: steps is 0, want an integer from 1 to 2147483647",
		`{"steps": 1.5}`:                "steps is 1.5, want an integer",
		`{"steps": null}`:               "steps is null, want an integer",
		`{"batch": "x"}`:                `batch is "x", want an integer`,
		`{"seed": -1}`:                  "seed is -1, want an integer of at least 0",
		`{"even": -1}`:                  "even is -1, want a number from 0",
		`{"rate": {"peak": 0}}`:         "rate.peak is 0, want a number above 0, and at most",
		`{"rate": {"floor": 2}}`:        "rate.floor is 2, want a number from 0 to 1",
		`{"rate": {"name": "step"}}`:    `rate.name is "step", want one of "cosine", "linear", "wsd", "constant"`,
		`{"rate": 3}`:                   "rate is 3, want an object",
		`{"dtype": "f16"}`:              `dtype is "f16", want one of "f32", "bf16"`,
		`{"zero": null}`:                "zero is null, want one of",
		`{"exact": true, "batch": 4}`:   "batch is 4, want a multiple of 8, the blocks of exact sums with mesh",
		`{"mesh": 4}`:                   "mesh is 4, want a text",
		`{"mesh": "dp"}`:                "s.json: mesh: ",
		`{"mesh": "pp=2"}`:              `mesh is "pp=2": axis pp, want dp`,
		`{"mesh": "dp=3"}`:              `batch is 16, want a multiple of 3, the ranks along dp and ep with mesh "dp=3"`,
		`{"data": {"files": "a"}}`:      `data.files is "a", want a list of texts`,
		`{"data": {"held_out": ["a"]}}`: "data.held_out is for texts with data.tokenizer",
		`{"data": {"files": ["a"], "tokenizer": "a", "date": "29.11."}}`: `data.date is "29.11.", want a date, such as 2026-11-29`,
		`{"data": {"files": ["a"], "date": "2026-11-29"}}`:               "data.date is for conversations, which want data.tokenizer",
		`{"data": {"files": ["a"], "tokenizer": "a", "limit_mib": 16}}`:  "data.limit_mib is for texts without data.tokenizer",
		`{"data": {"held_out_batches": 4}}`:                              "data.held_out_batches is for texts of data.held_out",
		`{"data": {"files": ["a"], "tokenizer": "a"}, "eval_every": 9}`:  "eval_every is for texts of data.held_out",
		`{"keep": 3}`:       "keep is for checkpoints of save_every; leave it out",
		`{"masters": true}`: `masters is for "dtype": "bf16"; weights of f32 are f32; leave it out`,
		`{"optimizer": {"name": "adafactor", "moments": "bf16"}}`: "optimizer.moments is for optimisers with moments",
		`{"rate": {"decay": 5}}`:                                  `rate.decay is for "rate.name": "wsd"`,
		`{"rate": {"name": "constant", "floor": 0.5}}`:            "rate.floor is for rates that fall",
		`{"rate": {"name": "constant", "warmup": 5}}`:             "rate.warmup is for rates that rise",
		`{"data": {"tokenizer": "a"}}`:                            "data.files is empty, want the files of text",
		`{"optimizer": {"clip": -1}}`:                             "optimizer.clip is -1, want a number from 0",
		`{"optimizer": {"stochastic": 1}}`:                        "optimizer.stochastic is 1, want true or false",
		`{"microbatches": 0}`:                                     "microbatches is 0, want an integer from 1",
		`{"microbatches": 3}`:                                     `batch is 16, want a multiple of 3, the ranks along dp and ep with mesh "" times the 3 microbatches`,
		`{"remat": "some"}`:                                       `remat is "some", want one of "off", "products", "all"`,
		`{"sums": "f8"}`:                                          `sums is "f8", want one of "f32", "bf16", "f16"`,
		`{"exact": true, "sums": "bf16"}`:                         `s.json: sums is for runs without "exact": true; sums of rounded numbers depend on the number of ranks; leave it out`,
		`{"optimizer": {"stochastic": false}}`:                    `optimizer.stochastic is for "dtype": "bf16"; weights of f32 are not rounded; leave it out`,
		`{"exact": 1}`:                                            "exact is 1, want true or false",
		`{"model": []}`:                                           "model is [], want an object",
		`{"model": {"a": 1, "a": 2}}`:                             `s.json: column 20: "a" is there twice in one object`,
	} {
		_, err := Parse("s.json", []byte(text))
		require.ErrorContains(t, err, want, text)
		_, err = Parse("s.json", []byte("\ufeff"+text)) // a byte order mark is no part of the text
		require.ErrorContains(t, err, want, text)
	}
	for text, want := range map[string]string{
		`{"model": {"model_type": "gpt2"}}`:                  `pretrain: s.json: model: model_type is "gpt2", want one of deepseek_v2 deepseek_v3 glm4_moe gpt_oss llama mixtral olmoe qwen2_moe qwen3 qwen3_moe`,
		`{"model": {"model_type": 3}}`:                       "model_type is 3, want one of",
		`{"model": {"hidden": 3}}`:                           "s.json: model: setting hidden is not known for architecture",
		`{"model": {"hidden_size": "x"}}`:                    "s.json: model: hidden_size",
		`{"model": {"hidden_size": 0}}`:                      "s.json: model: hidden_size is 0, want at least 1",
		`{"model": {"num_experts_per_tok": 9}}`:              "a token uses 9 of 8 experts, want at most as many",
		`{"model": {"vocab_size": 100}}`:                     "s.json: model: vocab_size is 100, want at least 256",
		`{"model": {"max_position_embeddings": 100}}`:        "max_position_embeddings is 100, want at least 128",
		`{"mesh": "ep=16"}`:                                  `s.json: mesh is "ep=16" and a layer has 8 experts`,
		`{"mesh": "ep=2", "model": {"model_type": "llama"}}`: `a layer has 0 experts`,
		`{"data": {"files": ["settings_test.go"]}, "model": {"num_local_experts": 10000000}}`: "the parameters and the optimiser's state need 43.0 TiB of memory for 1 of the 1 ranks of the mesh, and ",
		`{"data": {"files": ["settings_test.go"]}, "model": {"num_local_experts": 16777217}}`: "16777217 experts, want at most 16777216",
		`{"data": {"files": ["no such"]}}`:                               "s.json: text: data.files: stat no such: ",
		`{"data": {"files": ["settings_test.go"]}, "length": 65536}`:     "shorten the sequences or name more text with data.files",
		`{"data": {"files": ["settings_test.go"]}, "length": 1024}`:      "shorten the sequences or name more text with data.files, or turn the loss off, with -eval 0 or \"eval_every\": 0",
		`{"balance": 0.2, "model": {"model_type": "llama"}}`:             "balance and z_loss are for layers of experts, and the model has none; leave them out",
		`{"data": {"tokenizer": "no such", "files": ["a"]}}`:             "s.json: data.tokenizer: ",
		`{"model": {"model_type": "deepseek_v3", "scoring_func": "so"}}`: `scoring_func is "so", want sigmoid`,
	} {
		s, err := Parse("s.json", []byte(text))
		require.NoError(t, err, text)
		err = Run(t.Context(), t.Context(), s, Options{Out: filepath.Join(t.TempDir(), "out")})
		require.ErrorContains(t, err, want, text)
	}
}
