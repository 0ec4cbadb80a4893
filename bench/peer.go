package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The names of the peers.
const (
	torchName      = "PyTorch"
	torchPlainName = "PyTorch as installed"
	jaxName        = "JAX"
	openblasName   = "OpenBLAS"
	onednnName     = "oneDNN"
	peakName       = "peak" // the processor's own peak, measured
	ggmlName       = "ggml"
	ikName         = "ik_llama"
	llamaName      = "llama.cpp"
	ikLlamaName    = "ik_llama.cpp"
	memoryName     = "memory" // memory's read bandwidth, measured
)

// peer is a library to compare with.
type peer struct {
	name    string
	install string // how to install it
	// command returns the command running the peer with the given number of threads. dir holds the programs.
	command func(dir string, threads int) (*exec.Cmd, error)
	// fallbacks are environment variables to try, in order, one at a time, after the peer crashes without them.
	fallbacks []string
}

// oneDNNFallbacks keep oneDNN from using instructions that it detects and that a virtual machine lacks.
func oneDNNFallbacks() []string {
	return []string{"ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16", "ONEDNN_MAX_CPU_ISA=AVX2"}
}

func allPeers() []peer {
	return []peer{
		{torchName, "pip install torch", func(dir string, threads int) (*exec.Cmd, error) {
			cmd, err := python(dir, "torch_peer.py", "torch", threads)
			if err != nil {
				return nil, err
			}
			// MKL, used by PyTorch for products, uses AVX-512 on Intel's processors only.
			lib, err := compileShared(dir, "mkl_any_cpu.c")
			if err != nil {
				return nil, err
			}
			cmd.Env = append(cmd.Env, "LD_PRELOAD="+lib)
			return cmd, nil
		}, oneDNNFallbacks()},
		{torchPlainName, "pip install torch", func(dir string, threads int) (*exec.Cmd, error) {
			return python(dir, "torch_peer.py", "torch", threads)
		}, oneDNNFallbacks()},
		{jaxName, "pip install jax", func(dir string, threads int) (*exec.Cmd, error) { return python(dir, "jax_peer.py", "jax", threads) }, oneDNNFallbacks()},
		llama(llamaName, "llama_cpp", "llama-cpp-python[server]"),
		llama(ikLlamaName, "ik_llama_cpp", "ik-llama-cpp-python"),
		compiled(openblasName, "apt install libopenblas-dev, or set OPENBLAS_DIR", "openblas_peer.c", library{env: "OPENBLAS_DIR", pkg: "openblas", link: []string{"-lopenblas"}}),
		compiled(onednnName, "apt install libdnnl-dev, or set DNNL_DIR", "onednn_peer.c", library{env: "DNNL_DIR", link: []string{"-ldnnl"}}, oneDNNFallbacks()...),
		compiled(peakName, "apt install gcc", "peak_peer.c", library{}),
		compiled(memoryName, "apt install gcc", "memory_peer.c", library{}),
		compiled(ggmlName, "build github.com/ggml-org/ggml and set GGML_DIR; see bench/README.md", "ggml_peer.c", library{
			env: "GGML_DIR", required: true, include: []string{"ggml/include"}, link: []string{"-lggml", "-lggml-cpu", "-lggml-base", "-lstdc++"}}),
		compiled(ikName, "build github.com/ikawrakow/ik_llama.cpp and set IK_LLAMA_DIR; see bench/README.md", "ggml_peer.c", library{
			env: "IK_LLAMA_DIR", required: true, include: []string{"ggml/include"}, define: []string{"-DIK_LLAMA"}, link: []string{"-lggml", "-lstdc++"}}),
	}
}

// llama returns a peer using a Python module from a package.
func llama(name, module, pack string) peer {
	return peer{name, "pip install '" + pack + "' numpy", func(dir string, threads int) (*exec.Cmd, error) {
		cmd, err := python(dir, "llama_peer.py", module, threads)
		if err != nil {
			if missing := new(notInstalled); errors.As(err, &missing) {
				err = &notInstalled{"pip install '" + pack + "' numpy"}
			}
			return nil, err
		}
		cmd.Env = append(cmd.Env, "BENCH_PEERS_LLAMA="+module)
		return cmd, nil
	}, []string{"BENCH_PEERS_REPACK=0"}}
}

// notInstalled is the error of a peer that is not installed.
type notInstalled struct{ install string }

func (e *notInstalled) Error() string { return "not installed: " + e.install }

// python returns a command running a script if Python has the module.
func python(dir, script, module string, threads int) (*exec.Cmd, error) {
	exe := os.Getenv("BENCH_PYTHON")
	if exe == "" {
		exe = "python3"
	}
	// Finding the module is enough: importing it takes seconds.
	find := fmt.Sprintf("import importlib.util, sys; sys.exit(importlib.util.find_spec(%q) is None or importlib.util.find_spec('numpy') is None)", module)
	if err := exec.Command(exe, "-c", find).Run(); err != nil {
		return nil, &notInstalled{"pip install " + module + " numpy"}
	}
	cmd := exec.Command(exe, filepath.Join(dir, script))
	// The cache of torch.compile is removed after the run: an incomplete cache makes later runs fail.
	cmd.Env = append(environment(threads), "TORCHINDUCTOR_CACHE_DIR="+filepath.Join(dir, "inductor"),
		"TORCHINDUCTOR_COMPILE_THREADS=1", "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS=0")
	return cmd, nil
}

func compiled(name, install, source string, lib library, fallbacks ...string) peer {
	return peer{name, install, func(dir string, threads int) (*exec.Cmd, error) {
		exe, err := compile(dir, name, source, lib)
		if err != nil {
			var missing *missingLibrary
			if errors.As(err, &missing) {
				return nil, &notInstalled{install}
			}
			return nil, err
		}
		cmd := exec.Command(exe)
		cmd.Env = environment(threads)
		return cmd, nil
	}, fallbacks}
}

// environment returns the environment of peers. It sets the number of threads for all their libraries, and makes
// malloc keep large blocks instead of mapping new ones in every step. Variables of the caller, such as
// OMP_WAIT_POLICY, are kept, except one restricting OpenBLAS to an older processor: some machines set it for all
// programs.
func environment(threads int) []string {
	n := strconv.Itoa(threads)
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "OPENBLAS_CORETYPE=") || strings.HasPrefix(v, "OPENBLAS_L2_SIZE=")
	})
	for _, v := range []string{"BENCH_PEERS_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PJRT_NPROC", "NPROC"} {
		env = append(env, v+"="+n)
	}
	return append(env, "MALLOC_MMAP_THRESHOLD_=4294967296", "MALLOC_TRIM_THRESHOLD_=17179869184", "MALLOC_TOP_PAD_=67108864")
}

// crew starts each peer on first use, and keeps it running.
type crew struct {
	dir     string // where the programs are
	patient time.Duration
	verbose bool
	peers   map[string]peer
	running map[place]*child
	failed  map[place]error
	fallen  map[place]int // number of fallbacks tried
}

// place is a peer with a number of threads.
type place struct {
	peer    string
	threads int
}

func newCrew(dir string, patient time.Duration, verbose bool) *crew {
	c := &crew{dir: dir, patient: patient, verbose: verbose, peers: map[string]peer{}, running: map[place]*child{}, failed: map[place]error{}, fallen: map[place]int{}}
	for _, p := range allPeers() {
		c.peers[p.name] = p
	}
	return c
}

// member returns the peer's process. If there is none, the reason is remembered.
func (c *crew) member(name string, threads int) (*child, error) {
	at := place{name, threads}
	if m := c.running[at]; m != nil {
		return m, nil
	}
	if err := c.failed[at]; err != nil {
		return nil, err
	}
	p, ok := c.peers[name]
	if !ok {
		return nil, fmt.Errorf("bench: there is no peer %s", name)
	}
	m, err := func() (*child, error) {
		cmd, err := p.command(c.dir, threads)
		if err != nil {
			return nil, err
		}
		if n := c.fallen[at]; n > 0 {
			cmd.Env = append(cmd.Env, p.fallbacks[n-1])
		}
		if c.verbose {
			cmd.Env = append(cmd.Env, "BENCH_PEERS_VERBOSE=1")
		}
		return start(cmd, c.patient, c.verbose)
	}()
	if err != nil {
		if crash := new(crashed); !errors.As(err, &crash) { // another setting may help
			c.failed[at] = err
		}
		return nil, err
	}
	c.running[at] = m
	return m, nil
}

// lose ends a peer after a wrong or missing answer. The next workload restarts it.
func (c *crew) lose(name string, threads int) {
	at := place{name, threads}
	if m := c.running[at]; m != nil {
		m.kill() // its exit status no longer matters
		delete(c.running, at)
	}
}

// fallBack selects the next fallback of a crashed peer and returns it; "" if there is none.
func (c *crew) fallBack(name string, threads int) string {
	at := place{name, threads}
	all := c.peers[name].fallbacks
	if c.fallen[at] == len(all) {
		return ""
	}
	c.fallen[at]++
	return all[c.fallen[at]-1]
}

// dismiss ends all peers.
func (c *crew) dismiss() error {
	var errs []error
	for at, m := range c.running {
		if err := m.stop(); err != nil {
			errs = append(errs, fmt.Errorf("bench: %s: %w", at.peer, err))
		}
	}
	return errors.Join(errs...)
}
