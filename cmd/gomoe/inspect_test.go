package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
)

// tinyModel writes a model of one layer with 3 experts.
func tinyModel(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var ts []tensor.Source
	add := func(name string, shape ...int) {
		ts = append(ts, tensor.Of(name, array.New(graph.T(graph.F32, shape...))))
	}
	add("model.embed_tokens.weight", 300, 4)
	for e := range 3 {
		for _, name := range []string{"gate", "up", "down"} {
			add(fmt.Sprintf("model.layers.0.mlp.experts.%d.%s_proj.weight", e, name), 8, 4)
		}
	}
	add("model.layers.0.mlp.gate.weight", 3, 4)
	add("\x1b[2J", 1)
	require.NoError(t, safetensors.Write(filepath.Join(dir, safetensors.FileName), nil, ts))
	require.NoError(t, os.WriteFile(filepath.Join(dir, checkpoint.ConfigName), []byte(`{"model_type":"olmoe","num_experts_per_tok":2}`), 0o666))
	return dir
}

func inspectRun(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, wrong bytes.Buffer
	code = run(context.Background(), append([]string{"inspect"}, args...), nil, &out, &wrong)
	return code, out.String(), wrong.String()
}

func TestInspect(t *testing.T) {
	dir := tinyModel(t)
	code, out, wrong := inspectRun(t, dir, "-mesh", "ep=4", "-tensors")
	require.Equal(t, 0, code, wrong)
	var lines []string
	for _, line := range strings.Split(out, "\n") {
		lines = append(lines, strings.TrimRight(line, " "))
	}
	require.Equal(t, `format        safetensors, 1 file, 6004 B
architecture  olmoe
layers        1
experts       3, of which a token uses 2
layout        a tensor per expert, [I,H] and [H,I]
parameters    1.5k, of which a token uses 1.41k

       part  tensors  parameters   bytes  types
  embedding        1        1.2k  4800 B  F32
     router        1          12    48 B  F32
    experts        9         288  1152 B  F32
      other        1           1     4 B  F32

  rank  experts   bytes
     0        0  5236 B
     1        1  5236 B
     2        2  5236 B
     3     none  4852 B
the memory of caches and steps is unknown: models: `+filepath.Join(dir, checkpoint.ConfigName)+`: vocab_size is missing

model.embed_tokens.weight                      F32[300 4]  embedding
model.layers.0.mlp.experts.0.gate_proj.weight  F32[8 4]    experts
model.layers.0.mlp.experts.0.up_proj.weight    F32[8 4]    experts
model.layers.0.mlp.experts.0.down_proj.weight  F32[8 4]    experts
model.layers.0.mlp.experts.1.gate_proj.weight  F32[8 4]    experts
model.layers.0.mlp.experts.1.up_proj.weight    F32[8 4]    experts
model.layers.0.mlp.experts.1.down_proj.weight  F32[8 4]    experts
model.layers.0.mlp.experts.2.gate_proj.weight  F32[8 4]    experts
model.layers.0.mlp.experts.2.up_proj.weight    F32[8 4]    experts
model.layers.0.mlp.experts.2.down_proj.weight  F32[8 4]    experts
model.layers.0.mlp.gate.weight                 F32[3 4]    router
"\x1b[2J"                                      F32[1]      other
`, strings.Join(lines, "\n"))
}

func TestInspectJSON(t *testing.T) {
	dir := tinyModel(t)
	code, out, wrong := inspectRun(t, "-json", "-mesh=dp=2,ep=2", dir)
	require.Equal(t, 0, code, wrong)
	var got inspection
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	if got.Path != dir || got.Parameters != 1501 || got.Active != 1405 || len(got.Ranks) != 4 || got.Ranks[3] != (inspectionRank{Rank: 3, First: 2, Experts: 1, Bytes: 5236}) {
		t.Errorf("%+v", got)
	}
}

func TestInspectRefuses(t *testing.T) {
	dir := tinyModel(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exitUsage, "0 paths [], want one: a folder, or a file that ends with .safetensors or .gguf"},
		{[]string{dir, "-mesh", "ep"}, exitUsage, "-mesh: "},
		{[]string{dir, "-mesh", "tp=2"}, exitUsage, "-mesh tp=2: axis tp: want ep, which splits the experts, or dp, which copies the model; what needs the model's function is not known, either: models: "},
		{[]string{dir, "-room", "5"}, exitUsage, "-room 5: want at least 1, or 0 for the usual, and -mesh beside it"},
		{[]string{bytesModel(t), "-room", "97", "-mesh", "ep=2"}, exitUsage, "-room 97: the model takes 96 positions"},
		{[]string{bytesModel(t), "-mesh", "tp=3"}, exitUsage, "whose axis tp must split heads evenly"},
		{[]string{t.TempDir()}, exitWrong, "no model in the folder"},
	} {
		code, out, wrong := inspectRun(t, c.args...)
		if code != c.code || out != "" || !strings.Contains(wrong, c.want) {
			t.Errorf("%q: exit %d, %q %q, want %d and %q", c.args, code, out, wrong, c.code, c.want)
		}
	}
}

// Beside what ranks hold it says what they need to generate, which is what generate then says.
func TestInspectNeeds(t *testing.T) {
	dir := bytesModel(t)
	_, _, said := generateRun(t, "", dir, "-prompt", "!", "-n", "40", "-stats", "-mesh", "ep=2")
	code, out, wrong := inspectRun(t, dir, "-mesh", "ep=2", "-room", "40")
	require.Equal(t, 0, code, wrong)
	row := regexp.MustCompile(`\n +1 +3-5 +(\S+ \S+) +(\S+ \S+) +(\S+ \S+) +(\S+ \S+) *\ncaches and steps are those of a text with room for 40 positions\n$`).FindStringSubmatch(out)
	require.NotNil(t, row, out)
	require.Contains(t, said, "caches "+row[2]+", the largest step "+row[3])
	code, out, wrong = inspectRun(t, dir, "-mesh", "ep=2,tp=2", "-json")
	require.Equal(t, 0, code, wrong)
	var got inspection
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got.Ranks, 4)
	require.Equal(t, 96, got.Room)
	if k := got.Ranks[2]; k.First != 3 || k.Experts != 3 || k.Bytes == 0 || k.Bytes >= got.Bytes*3/5 || k.Caches == 0 || k.Step == 0 {
		t.Errorf("%+v of %d bytes", k, got.Bytes)
	}
}
