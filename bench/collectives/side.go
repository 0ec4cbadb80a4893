package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/world"
)

// sources are the peers' programs.
//
//go:embed peers
var sources embed.FS

func unpack(dir string) error {
	sub, err := fs.Sub(sources, "peers")
	if err != nil {
		return err
	}
	return os.CopyFS(dir, sub)
}

// side is one implementation to measure: a transport of gomoe or a peer.
type side struct {
	name string
	// prepare makes the side ready, or returns an error explaining why it cannot be measured here.
	prepare func(ctx context.Context, dir string) error
	// command returns the command running n ranks and printing one row of JSON per line.
	command func(ctx context.Context, dir string, n int, s settings) *exec.Cmd
}

func allSides() []side {
	sides := []side{transport("copy")}
	for _, t := range world.Transports() {
		if t.Name != "auto" && !t.Devices {
			sides = append(sides, transport(t.Name))
		}
	}
	return append(sides, openMPI("Open MPI", "vader,self"), openMPI("Open MPI TCP", "tcp,self"), side{"MLX ring", mlxInstalled, mlxRing})
}

// words returns the arguments common to the programs of all sides.
func (s settings) words(name string) []string {
	return append([]string{name, strconv.FormatInt(s.min, 10), strconv.FormatInt(s.max, 10), strconv.Itoa(s.factor), strconv.Itoa(s.batches), fmt.Sprint(s.batch.Seconds())}, s.ops...)
}

func transport(name string) side {
	return side{"gomoe " + name, func(ctx context.Context, dir string) error {
		if launcher := world.TransportOf(name).Launcher; launcher != "" {
			if _, err := exec.LookPath(launcher); err != nil {
				return errors.New("not installed: apt install openmpi-bin")
			}
		}
		exe := filepath.Join(dir, "gomoe")
		if _, err := os.Stat(exe); err == nil {
			return nil
		}
		cmd := exec.CommandContext(ctx, "go", "build", "-tags", "native", "-o", exe, "github.com/gomoe/gomoe/cmd/gomoe")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	}, func(ctx context.Context, dir string, n int, s settings) *exec.Cmd {
		return exec.CommandContext(ctx, filepath.Join(dir, "gomoe"), "bench", "collectives", "-transport", name, "-n", strconv.Itoa(n),
			"-min", strconv.FormatInt(s.min, 10), "-max", strconv.FormatInt(s.max, 10), "-factor", strconv.Itoa(s.factor),
			"-batches", strconv.Itoa(s.batches), "-batch", s.batch.String(), "-ops", strings.Join(s.ops, ","), "-tokens", "0", "-json", "-")
	}}
}

// openMPI is Open MPI with one of its transports between processes of a machine.
func openMPI(name, btl string) side {
	return side{name, func(ctx context.Context, dir string) error {
		for _, tool := range []string{"mpirun", "mpicc"} {
			if _, err := exec.LookPath(tool); err != nil {
				return errors.New("not installed: apt install openmpi-bin libopenmpi-dev")
			}
		}
		out, err := exec.CommandContext(ctx, "mpicc", "-O2", "-o", filepath.Join(dir, "mpi_peer"), filepath.Join(dir, "mpi_peer.c")).CombinedOutput()
		if err != nil {
			return fmt.Errorf("mpicc: %w\n%s", err, out)
		}
		return nil
	}, func(ctx context.Context, dir string, n int, s settings) *exec.Cmd {
		args := []string{"--oversubscribe", "-n", strconv.Itoa(n), "--mca", "pml", "ob1", "--mca", "btl", btl, "--mca", "mpi_yield_when_idle", "1", filepath.Join(dir, "mpi_peer")}
		cmd := exec.CommandContext(ctx, "mpirun", append(args, s.words(name)...)...)
		cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
		return cmd
	}}
}

// python is the interpreter running the peers.
func python() string {
	if exe := os.Getenv("BENCH_PYTHON"); exe != "" {
		return exe
	}
	return "python3"
}

func mlxInstalled(ctx context.Context, _ string) error {
	if err := exec.CommandContext(ctx, python(), "-c", "import mlx.core").Run(); err != nil {
		return errors.New("not installed: pip install 'mlx[cpu]'")
	}
	return nil
}

// mlxRing returns a command starting the ranks of MLX's ring: a shell runs all but the first in the
// background and waits for them.
func mlxRing(ctx context.Context, dir string, n int, s settings) *exec.Cmd {
	var nodes [][]string
	for range n {
		nodes = append(nodes, []string{freeAddress()})
	}
	b, _ := json.Marshal(nodes) // strings cannot fail to encode
	hosts := filepath.Join(dir, fmt.Sprintf("ring-%d.json", n))
	script := fmt.Sprintf("set -e\nprintf '%%s' '%s' > %s\n", b, hosts)
	for r := n - 1; r >= 0; r-- {
		script += fmt.Sprintf("MLX_RANK=%d MLX_HOSTFILE=%s %s %s \"$@\"", r, hosts, python(), filepath.Join(dir, "mlx_ring.py"))
		if r > 0 {
			script += " >/dev/null &"
		}
		script += "\n"
	}
	script += "wait\n"
	return exec.CommandContext(ctx, "sh", append([]string{"-c", script, "sh"}, s.words("MLX ring")...)...)
}

// freeAddress returns a loopback address without a listener.
func freeAddress() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "127.0.0.1:0" // the peer reports that it cannot use this address
	}
	defer l.Close()
	return l.Addr().String()
}
