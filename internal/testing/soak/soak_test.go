//go:build soak && linux

package soak

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	long = flag.Duration("long", time.Hour, "how long to run")
	seed = flag.Uint64("seed", 0, "`seed` of the random faults; 0 takes one from the clock")
	only = flag.String("fault", "", "`name` of the only fault to try")
)

const (
	ranks = 4
	// deadline is what the jobs' deadline is set to.
	deadline = 4 * time.Second
	// patience is how long a job may take to end once it has to, on a busy machine.
	patience = 60 * time.Second
)

// bench is what all trials share.
type bench struct {
	root          string // a folder for everything
	gomoe, moe_lm string // the programs
	text          string // the file to train on
	rng           *rand.Rand
	loss          string // of the runs that nothing disturbs
}

func TestSoak(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", *seed)
	b := &bench{root: t.TempDir(), rng: rand.New(rand.NewPCG(*seed, 1))}
	b.build(t)
	names := make([]string, 0, len(faults))
	for name := range faults {
		if *only == "" || name == *only {
			names = append(names, name)
		}
	}
	require.NotEmpty(t, names, "no fault has the name %q", *only)
	slices.Sort(names)
	took := map[string][]time.Duration{}
	before := shared(t)
	if *only == "" {
		b.memory(t, *long/4)
	}
	for n, began := 0, time.Now(); time.Since(began) < *long*3/4 || n < len(names); n++ {
		name := names[n%len(names)]
		ok := t.Run(fmt.Sprintf("%d/%s", n, name), func(t *testing.T) {
			j := b.start(t, name)
			since := faults[name](j)
			took[name] = append(took[name], time.Since(since))
			j.over()
		})
		if !ok {
			break
		}
	}
	require.Equal(t, before, shared(t), "files in shared memory")
	for _, name := range names {
		d := took[name]
		slices.Sort(d)
		if len(d) > 0 {
			t.Logf("%-12s %4d times, all over after %8v in the median, %8v at most", name, len(d), d[len(d)/2].Round(time.Millisecond), d[len(d)-1].Round(time.Millisecond))
		}
	}
}

// build builds the programs and writes the text.
func (b *bench) build(t *testing.T) {
	b.gomoe, b.moe_lm, b.text = filepath.Join(b.root, "gomoe"), filepath.Join(b.root, "moe_lm"), filepath.Join(b.root, "text")
	cmd := exec.Command("go", "build", "-o", b.root, "github.com/gomoe/gomoe/cmd/gomoe", "github.com/gomoe/gomoe/examples/moe_lm")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	var text strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&text, "%d bottles of water stand on shelf %d, and %d more below it.\n", i, i%7, i*i%101)
	}
	require.NoError(t, os.WriteFile(b.text, []byte(text.String()), 0o600))
}

// train returns the command line of a small training run.
func (b *bench) train(steps int, out string, more ...string) []string {
	return append([]string{b.moe_lm, "-data", b.text, "-width", "32", "-layers", "2", "-heads", "2", "-ffn", "32", "-experts", "4",
		"-seq", "32", "-batch", "8", "-sample", "0", "-eval", "0", "-steps", fmt.Sprint(steps), "-out", out}, more...)
}

// shared returns the names in the folder of shared memory.
func shared(t *testing.T) []string {
	entries, err := os.ReadDir("/dev/shm")
	require.NoError(t, err)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
