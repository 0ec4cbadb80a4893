package mesh

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/jaccl/rdma"
	"github.com/gomoe/gomoe/jaccl/rdma/rdmatest"
)

func TestMain(m *testing.M) {
	if role := os.Getenv("RDMA_TEST_RANK"); role != "" {
		os.Exit(rankMain(role))
	}
	os.Exit(rdmatest.Main(m))
}

// rankMain is main of a rank that a test starts as a process. What it is to do stands
// in RDMA_TEST_RANK.
func rankMain(role string) int {
	if err := runRank(role); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runRank(role string) error {
	job, err := environ.Detect(os.Getenv)
	if err != nil {
		return err
	}
	o := Options{Settings: rdma.Settings{Library: job.Verbs}, Rank: job.Rank, Coordinator: job.Coordinator}
	if o.Devices, err = job.ReadDevices(); err != nil {
		return err
	}
	o.FramesOnly = role == "frames"
	if role == "victim" {
		o.Deadline, _ = time.ParseDuration(os.Getenv("RDMA_TEST_DEADLINE")) // 0 for the default
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c, err := Connect(ctx, o)
	if err != nil {
		return err
	}
	defer c.Close()
	w := bufio.NewWriter(os.Stdout)
	defer w.Flush()
	if role != "victim" {
		p := program{n: c.Size(), w: []io.Writer{w}}
		return p.run(ctx, c.World())
	}
	// Sums without end, of which the first is announced.
	buf := make([]byte, 100000)
	for i := 0; ; i++ {
		if err := c.World().AllSum(ctx, collective.Call{Op: "all_sum", Seq: i, DType: 8}, buf, buf); err != nil {
			return err
		}
		if i == 0 {
			fmt.Fprintln(w, "running")
			w.Flush()
		}
	}
}

// processes starts a job of n ranks, each a process: of program others[r] where that is
// given, else of this test.
type processes struct {
	cmds []*exec.Cmd
	out  []*bytes.Buffer
	errs []*bytes.Buffer
	wait sync.WaitGroup
	end  []error
}

func startProcesses(t *testing.T, role, play string, n, wires int, others map[int]string) *processes {
	t.Helper()
	lib := rdmatest.Standin(t, "")
	dir := t.TempDir()
	require.NoError(t, os.Symlink(lib, filepath.Join(dir, "librdma.dylib")))
	matrix, err := json.Marshal(rdmatest.Wires(n, wires))
	require.NoError(t, err)
	devices := filepath.Join(dir, "devices.json")
	require.NoError(t, os.WriteFile(devices, bytes.ReplaceAll(matrix, []byte("[]"), []byte("null")), 0o600))
	address := rdmatest.FreeAddress(t)
	self, err := os.Executable()
	require.NoError(t, err)
	p := &processes{end: make([]error, n)}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(func() { cancel(); p.wait.Wait() })
	for r := range n {
		program := self
		if others[r] != "" {
			program = others[r]
		}
		cmd := exec.CommandContext(ctx, program)
		cmd.Env = append(os.Environ(), "RDMA_TEST_RANK="+role, "STANDIN=dir="+dir+","+play, "LD_LIBRARY_PATH="+dir, "JACCL_LIBRDMA="+lib,
			fmt.Sprint("MLX_RANK=", r), "MLX_IBV_DEVICES="+devices, "MLX_JACCL_COORDINATOR="+address, "GOMAXPROCS=1")
		p.out, p.errs = append(p.out, &bytes.Buffer{}), append(p.errs, &bytes.Buffer{})
		cmd.Stdout, cmd.Stderr = p.out[r], p.errs[r]
		p.cmds = append(p.cmds, cmd)
	}
	return p
}

func (p *processes) start(t *testing.T) {
	for r, cmd := range p.cmds {
		require.NoError(t, cmd.Start())
		p.wait.Go(func() { p.end[r] = cmd.Wait() })
		if r == 0 {
			time.Sleep(100 * time.Millisecond) // JACCL's own rank 0 has room for one connection at a time
		}
	}
}

// compare checks what every rank has printed.
func (p *processes) compare(t *testing.T) {
	t.Helper()
	p.wait.Wait()
	want := make([]bytes.Buffer, len(p.cmds))
	expected := program{n: len(p.cmds)}
	for r := range want {
		expected.w = append(expected.w, &want[r])
	}
	require.NoError(t, expected.expect())
	for r := range p.cmds {
		if p.end[r] != nil {
			t.Errorf("rank %d: %v: %s", r, p.end[r], p.errs[r])
			continue
		}
		got, lines := strings.Split(p.out[r].String(), "\n"), strings.Split(want[r].String(), "\n")
		if len(got) != len(lines) {
			t.Errorf("rank %d has %d lines, want %d", r, len(got), len(lines))
			continue
		}
		wrong := 0
		for i := range lines {
			if got[i] != lines[i] {
				if wrong++; wrong < 5 {
					t.Errorf("rank %d: %s, want %s", r, got[i], lines[i])
				}
			}
		}
		if wrong > 0 {
			t.Errorf("rank %d: %d of %d results are wrong", r, wrong, len(lines)-1)
		}
	}
}

func TestProcesses(t *testing.T) {
	for n := 2; n <= 4; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			p := startProcesses(t, "program", "", n, 1, nil)
			p.start(t)
			p.compare(t)
		})
	}
	for _, c := range [][2]int{{2, 2}, {3, 2}, {3, 4}} {
		t.Run(fmt.Sprintf("%d over %d wires", c[0], c[1]), func(t *testing.T) {
			p := startProcesses(t, "program", "", c[0], c[1], nil)
			p.start(t)
			p.compare(t)
		})
	}
	t.Run("frames", func(t *testing.T) {
		p := startProcesses(t, "frames", "gid=4", 3, 1, nil)
		p.start(t)
		p.compare(t)
	})
}
