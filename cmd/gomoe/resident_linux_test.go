package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

// The sizes of wide models: one layer of experts, of which a token has 8.
const (
	wideHidden  = 256
	wideWidth   = 1024
	wideExperts = 16
	wideVocab   = 40
)

// wide returns a folder with the tokenizer of small models and a configuration of models/testdata with the sizes of wide models, the
// weights that all wide models have, and what adds others of type F16.
func wide(t *testing.T, like string) (dir string, ts *[]tensor.Source, add func(name string, shape ...int)) {
	t.Helper()
	dir, ts = smallModel(t), new([]tensor.Source)
	text, err := os.ReadFile(filepath.Join("../../models/testdata", like, checkpoint.ConfigName))
	require.NoError(t, err)
	var config map[string]any
	require.NoError(t, json.Unmarshal(text, &config))
	delete(config, "layer_types")
	for key, n := range map[string]int{"hidden_size": wideHidden, "intermediate_size": wideWidth, "num_local_experts": wideExperts, "num_experts_per_tok": 8,
		"num_hidden_layers": 1, "vocab_size": wideVocab, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": wideHidden / 4} {
		config[key] = n
	}
	text, err = json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, checkpoint.ConfigName), text, 0o666))
	rng := rand.New(rand.NewPCG(1, 1))
	add = func(name string, shape ...int) {
		a := array.New(graph.T(graph.F32, shape...))
		for i := range array.Data[float32](a) {
			array.Data[float32](a)[i] = float32(rng.NormFloat64()) * 0.05
		}
		*ts = append(*ts, tensor.Of(name, a.As(graph.F16)))
	}
	add("model.embed_tokens.weight", wideVocab, wideHidden)
	add("lm_head.weight", wideVocab, wideHidden)
	add("model.norm.weight", wideHidden)
	for _, name := range []string{"input_layernorm", "post_attention_layernorm"} {
		add("model.layers.0."+name+".weight", wideHidden)
	}
	for _, name := range []string{"q", "k", "v", "o"} {
		add("model.layers.0.self_attn."+name+"_proj.weight", wideHidden, wideHidden)
	}
	return dir, ts, add
}

// wideModel returns a folder and a GGUF file of 26 MB, nearly all of them experts. In the folder they are tensors of their own, in the
// order in which transformers writes them.
func wideModel(t *testing.T) (dir, file string) {
	t.Helper()
	dir, ts, add := wide(t, "mixtral")
	add("model.layers.0.block_sparse_moe.gate.weight", wideExperts, wideHidden)
	for e := range wideExperts {
		name := fmt.Sprintf("model.layers.0.block_sparse_moe.experts.%d.", e)
		add(name+"w1.weight", wideWidth, wideHidden)
		add(name+"w2.weight", wideHidden, wideWidth)
		add(name+"w3.weight", wideWidth, wideHidden)
	}
	require.NoError(t, safetensors.Write(filepath.Join(dir, safetensors.FileName), nil, *ts))
	file = filepath.Join(t.TempDir(), "m.gguf")
	code := run(t.Context(), []string{"convert", dir, file, "-quiet"}, nil, io.Discard, io.Discard)
	require.Equal(t, 0, code)
	return dir, file
}

// wideBlocks returns a folder of a gpt-oss, whose experts lie in 7 MB of blocks that ranks copy.
func wideBlocks(t *testing.T) (dir string) {
	t.Helper()
	dir, ts, add := wide(t, "gpt_oss_mxfp4")
	const layer = "model.layers.0."
	for _, name := range []string{"q", "k", "v", "o"} {
		add(layer+"self_attn."+name+"_proj.bias", wideHidden)
	}
	add(layer+"self_attn.sinks", 4)
	add(layer+"mlp.router.weight", wideExperts, wideHidden)
	add(layer+"mlp.router.bias", wideExperts)
	add(layer+"mlp.experts.gate_up_proj_bias", wideExperts, 2*wideWidth)
	add(layer+"mlp.experts.down_proj_bias", wideExperts, wideHidden)
	rng := rand.New(rand.NewPCG(2, 2))
	for name, shape := range map[string][]int{"gate_up_proj": {wideExperts, 2 * wideWidth, wideHidden / 32}, "down_proj": {wideExperts, wideHidden, wideWidth / 32}} {
		blocks, scales := array.New(graph.T(graph.U8, append(shape, 16)...)), array.New(graph.T(graph.U8, shape...))
		for i := range array.Data[uint8](blocks) {
			array.Data[uint8](blocks)[i] = uint8(rng.Uint32())
		}
		for i := range array.Data[uint8](scales) {
			array.Data[uint8](scales)[i] = 120 // 2 to the power of -7
		}
		*ts = append(*ts, tensor.Of(layer+"mlp.experts."+name+"_blocks", blocks), tensor.Of(layer+"mlp.experts."+name+"_scales", scales))
	}
	require.NoError(t, safetensors.Write(filepath.Join(dir, safetensors.FileName), nil, *ts))
	return dir
}

// mappedBytes returns how many bytes of a file a process has used, in pages.
func mappedBytes(t *testing.T, pid int, path string) (sum int64) {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps", pid))
	require.NoError(t, err)
	defer f.Close()
	within := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if strings.Contains(fields[0], "-") {
			within = fields[len(fields)-1] == path
			continue
		}
		switch kib, _ := strconv.ParseInt(fields[1], 10, 64); {
		case within && fields[0] == "Rss:":
			sum += kib << 10
		case within && fields[0] == "FilePmdMapped:" && kib > 0:
			t.Skip("needs a file system that maps a file in pages of 4 KiB: here a byte has 2 MiB of its file in memory")
		}
	}
	return sum
}

// anonymousBytes returns how many bytes a process has that lie in no file.
func anonymousBytes(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, after, ok := strings.Cut(string(text), "RssAnon:")
	require.True(t, ok)
	var kib int64
	_, err = fmt.Sscan(after, &kib)
	require.NoError(t, err)
	return kib << 10
}

// presentBytes returns how many bytes of a part of a file a process has in memory, in pages.
func presentBytes(t *testing.T, pid int, x tensor.Tensor) (sum int64) {
	t.Helper()
	const page, word = 4096, 8
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	require.NoError(t, err)
	pages, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	require.NoError(t, err)
	defer pages.Close()
	for line := range strings.Lines(string(maps)) {
		var from, to, at int64
		if !strings.HasSuffix(line, " "+x.File+"\n") {
			continue
		}
		_, err := fmt.Sscanf(line, "%x-%x %s %x", &from, &to, new(string), &at)
		require.NoError(t, err)
		first, last := max(x.Offset-at, 0), min(x.Offset+int64(len(x.Mem))-at, to-from)
		if first >= last {
			continue
		}
		words := make([]byte, ((last+page-1)/page-first/page)*word)
		_, err = pages.ReadAt(words, (from/page+first/page)*word)
		require.NoError(t, err)
		for i := range len(words) / word {
			if binary.LittleEndian.Uint64(words[i*word:])>>63 == 1 { // the page is there
				sum += page
			}
		}
	}
	return sum
}

// Each rank of a job has its own bytes of the file in memory, and those that all ranks have, and no more than a tenth beside
// them.
func TestResidentRanks(t *testing.T) {
	dir, file := wideModel(t)
	for path, file := range map[string]string{file: file, dir: filepath.Join(dir, safetensors.FileName)} {
		c, err := checkpoint.Open(path)
		require.NoError(t, err)
		defer c.Close()
		for _, n := range []int{1, 2, 4} {
			on := fmt.Sprintf("ep=%d", n)
			mesh, err := sharding.ParseMesh(on)
			require.NoError(t, err)
			held, err := c.Held(mesh)
			require.NoError(t, err)
			residentRanks(t, path, on, n, func(rank, pid int) {
				got, share := mappedBytes(t, pid, file), held[rank].Bytes
				t.Logf("%s, rank %d of %s: %d bytes of the file in memory, its share is %d", filepath.Base(path), rank, on, got, share)
				if got > share+share/10 || got < share/2 {
					t.Errorf("%s, rank %d of %s has %d bytes of the file in memory, want its %d and at most a tenth more", filepath.Base(path), rank, on, got, share)
				}
				// Some 12 MB are the process's, and a copy is as large as the share.
				if own := anonymousBytes(t, pid); own > 14<<20+share/2 {
					t.Errorf("rank %d of %s has %d bytes of its own in memory, want no copy of the weights' %d among them", rank, on, own, share)
				} else {
					t.Logf("rank %d of %s: %d bytes of its own", rank, on, own)
				}
			})
		}
	}
}

// What ranks copy, columns of matrices and blocks in another order, is not in memory beside the copies.
func TestResidentCopies(t *testing.T) {
	dir, _ := wideModel(t)
	for _, c := range []struct{ path, mesh, copied string }{{dir, "tp=2", ".w2.weight"}, {wideBlocks(t), "ep=2", "_proj_blocks"}} {
		model, err := checkpoint.Open(c.path)
		require.NoError(t, err)
		defer model.Close()
		residentRanks(t, c.path, c.mesh, 2, func(rank, pid int) {
			var got, all, others int64
			for _, x := range model.Tensors {
				if n := presentBytes(t, pid, x); strings.HasSuffix(x.Name, c.copied) {
					got, all = got+n, all+int64(len(x.Mem))
				} else {
					others += n
				}
			}
			t.Logf("rank %d of %s: %d bytes of %d that were copied, and %d others", rank, c.mesh, got, all, others)
			if own := anonymousBytes(t, pid); own > 14<<20+all*3/4 { // a half of them is copied
				t.Errorf("rank %d of %s has %d bytes of its own in memory, want one copy of %d among them", rank, c.mesh, own, all/2)
			}
			if got > all/10 || all < 6<<20 || others == 0 {
				t.Errorf("rank %d of %s has %d of %d bytes in memory that it has copied, and %d others", rank, c.mesh, got, all, others)
			}
		})
	}
}

// residentRanks opens a model, has it write, and calls check for each rank.
func residentRanks(t *testing.T, path, mesh string, n int, check func(rank, pid int)) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "launch", "-n", fmt.Sprint(n), "-grace", "100s", "--", "/bin/sh", "-c", `echo pid $RANK $$ >&2; exec "$0" "$@"`,
		os.Args[0], "serve", path, "-mesh", mesh, "-listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), asTool+"=1", "GOMAXPROCS=2") // each thread has memory of its own
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // where the test ends before the job
	lines, pids, addr, said := bufio.NewScanner(stderr), map[int]int{}, "", ""
	for (len(pids) < n || addr == "") && lines.Scan() {
		if said += lines.Text() + "\n"; strings.Contains(lines.Text(), "pid ") {
			_, text, _ := strings.Cut(lines.Text(), "pid ")
			var rank, pid int
			_, err := fmt.Sscan(text, &rank, &pid)
			require.NoError(t, err)
			pids[rank] = pid
		} else if _, a, ok := strings.Cut(lines.Text(), " at http://"); ok {
			addr = a
		}
	}
	require.NotEmpty(t, addr, said)
	status, answer := completeText(t, addr, `{"prompt": "`+strings.Repeat(`!#$%&()*`, 8)+`", "max_tokens": 10, "temperature": 0}`)
	require.Equal(t, 200, status, answer)
	for rank := range n {
		check(rank, pids[rank])
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	_, err = io.Copy(io.Discard, stderr)
	require.NoError(t, err)
	_ = cmd.Wait() // a job that was told to end says so in its status
}
