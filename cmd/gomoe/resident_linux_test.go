package main

import (
	"bufio"
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

// wideModel returns a folder and a GGUF file of 26 MB, nearly all of them 16 experts of one layer, of which a token has 8. In the
// folder they are tensors of their own, in the order in which transformers writes them.
func wideModel(t *testing.T) (dir, file string) {
	t.Helper()
	const hidden, width, experts, vocab = 256, 1024, 16, 40
	dir = smallModel(t)
	path := filepath.Join(dir, checkpoint.ConfigName)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var config map[string]any
	require.NoError(t, json.Unmarshal(text, &config))
	for key, n := range map[string]int{"hidden_size": hidden, "intermediate_size": width, "num_local_experts": experts, "num_experts_per_tok": 8,
		"num_hidden_layers": 1, "vocab_size": vocab, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": hidden / 4} {
		config[key] = n
	}
	text, err = json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text, 0o666))
	rng := rand.New(rand.NewPCG(1, 1))
	var ts []tensor.Source
	add := func(name string, shape ...int) {
		a := array.New(graph.T(graph.F32, shape...))
		for i := range array.Data[float32](a) {
			array.Data[float32](a)[i] = float32(rng.NormFloat64()) * 0.05
		}
		ts = append(ts, tensor.Of(name+".weight", a.As(graph.F16)))
	}
	add("model.embed_tokens", vocab, hidden)
	add("lm_head", vocab, hidden)
	add("model.norm", hidden)
	for _, name := range []string{"input_layernorm", "post_attention_layernorm"} {
		add("model.layers.0."+name, hidden)
	}
	for _, name := range []string{"q", "k", "v", "o"} {
		add("model.layers.0.self_attn."+name+"_proj", hidden, hidden)
	}
	add("model.layers.0.block_sparse_moe.gate", experts, hidden)
	for e := range experts {
		name := fmt.Sprintf("model.layers.0.block_sparse_moe.experts.%d.", e)
		add(name+"w1", width, hidden)
		add(name+"w2", hidden, width)
		add(name+"w3", width, hidden)
	}
	require.NoError(t, safetensors.Write(filepath.Join(dir, safetensors.FileName), nil, ts))
	file = filepath.Join(t.TempDir(), "m.gguf")
	code := run(t.Context(), []string{"convert", dir, file, "-quiet"}, nil, io.Discard, io.Discard)
	require.Equal(t, 0, code)
	return dir, file
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

// Each rank of a job has its own bytes of the file in memory, and those that all ranks have, and no more than a tenth beside
// them.
func TestResidentRanks(t *testing.T) {
	dir, file := wideModel(t)
	for path, file := range map[string]string{file: file, dir: filepath.Join(dir, safetensors.FileName)} {
		residentRanks(t, path, file)
	}
}

// residentRanks opens a model, all of which is in one file.
func residentRanks(t *testing.T, path, file string) {
	t.Helper()
	c, err := checkpoint.Open(path)
	require.NoError(t, err)
	defer c.Close()
	for _, n := range []int{1, 2, 4} {
		mesh, err := sharding.ParseMesh(fmt.Sprintf("ep=%d", n))
		require.NoError(t, err)
		held, err := c.Held(mesh)
		require.NoError(t, err)
		cmd := exec.Command(os.Args[0], "launch", "-n", fmt.Sprint(n), "-grace", "100s", "--", "/bin/sh", "-c", `echo pid $RANK $$ >&2; exec "$0" "$@"`,
			os.Args[0], "serve", path, "-mesh", fmt.Sprintf("ep=%d", n), "-listen", "127.0.0.1:0")
		cmd.Env = append(os.Environ(), asTool+"=1", "GOMAXPROCS=2") // each thread has memory of its own
		stderr, err := cmd.StderrPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() }) // where the test ends before the job
		lines, pids, addr := bufio.NewScanner(stderr), map[int]int{}, ""
		for (len(pids) < n || addr == "") && lines.Scan() {
			if _, text, ok := strings.Cut(lines.Text(), "pid "); ok {
				var rank, pid int
				_, err := fmt.Sscan(text, &rank, &pid)
				require.NoError(t, err)
				pids[rank] = pid
			} else if _, a, ok := strings.Cut(lines.Text(), " at http://"); ok {
				addr = a
			}
		}
		status, answer := completeText(t, addr, `{"prompt": "`+strings.Repeat(`!#$%&()*`, 8)+`", "max_tokens": 10, "temperature": 0}`)
		require.Equal(t, 200, status, answer)
		for rank, h := range held {
			got := mappedBytes(t, pids[rank], file)
			t.Logf("rank %d of %d: %d bytes in memory, its share is %d", rank, n, got, h.Bytes)
			if got > h.Bytes+h.Bytes/10 || got < h.Bytes/2 {
				t.Errorf("rank %d of %d has %d bytes of %s in memory, want its %d and at most a tenth more", rank, n, got, file, h.Bytes)
			}
			// Some 12 MB are the process's, and a copy is as large as the share.
			if own := anonymousBytes(t, pids[rank]); own > 14<<20+h.Bytes/2 {
				t.Errorf("rank %d of %d has %d bytes of its own in memory, want no copy of the weights' %d among them", rank, n, own, h.Bytes)
			} else {
				t.Logf("rank %d of %d: %d bytes of its own", rank, n, own)
			}
		}
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		_, err = io.Copy(io.Discard, stderr)
		require.NoError(t, err)
		_ = cmd.Wait() // a job that was told to end says so in its status
	}
}
