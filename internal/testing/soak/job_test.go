//go:build soak && linux

package soak

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// marker is the variable by which the processes of a job are found, also those that a job has
// forgotten.
const marker = "GOMOE_SOAK"

// job is one `gomoe launch`.
type job struct {
	*testing.T
	*bench
	id        string
	dir       string // of everything that the job writes
	tmp, out  string // its folder of temporary files, and of results
	transport string
	cmd       *exec.Cmd
	stdout    *os.File // the end to read from
	read      sync.Once
	said      buffer // what was read from stdout
	errs      buffer // standard error
	ended     chan struct{}
}

// buffer is output that grows while others look at it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// start prepares a job; a fault launches it.
func (b *bench) start(t *testing.T, fault string) *job {
	dir, err := os.MkdirTemp(b.root, "job-")
	require.NoError(t, err)
	j := &job{T: t, bench: b, id: filepath.Base(dir), dir: dir, tmp: filepath.Join(dir, "tmp"), out: filepath.Join(dir, "out"), ended: make(chan struct{})}
	require.NoError(t, os.Mkdir(j.tmp, 0o700))
	j.transport = []string{"shm", "tcp"}[b.rng.IntN(2)]
	return j
}

// launch starts the command on every rank, with words before the launcher's own and flags.
func (j *job) launch(command []string, before, flags []string) {
	words := append(append(append([]string{}, before...), j.gomoe, "launch"), flags...)
	words = append(append(words, "-transport", j.transport, "--"), command...)
	j.cmd = exec.Command(words[0], words[1:]...)
	j.cmd.Env = append(os.Environ(), "TMPDIR="+j.tmp, marker+"="+j.id, "GOMOE_DEADLINE="+deadline.String())
	r, w, err := os.Pipe()
	require.NoError(j, err)
	j.stdout, j.cmd.Stdout, j.cmd.Stderr = r, w, &j.errs
	j.cmd.WaitDelay = patience // of standard error, should a rank keep it
	require.NoError(j, j.cmd.Start())
	w.Close()
	go func() {
		j.cmd.Wait()
		close(j.ended)
	}()
	j.Cleanup(func() {
		for _, pid := range j.processes() {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		r.Close()
		if j.Failed() {
			j.Logf("%q over %s\n%s\n%s", words, j.transport, j.said.String(), j.errs.String())
		}
	})
}

// listen begins to read the standard output.
func (j *job) listen() {
	j.read.Do(func() { go io.Copy(&j.said, j.stdout) })
}

// trains waits until the job has begun to train, and then a random time.
func (j *job) trains() {
	j.listen()
	j.eventually("a first step", func() bool { return strings.Contains(j.said.String(), "] step ") })
	time.Sleep(time.Duration(j.rng.Int64N(int64(3 * time.Second))))
}

func (j *job) eventually(what string, is func() bool) {
	j.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		select {
		case <-j.ended:
			if !is() {
				require.FailNow(j, "the job ended before "+what)
			}
			return
		default:
		}
		require.True(j, time.Now().Before(end), "%s did not come within %v", what, patience)
	}
}

// finish waits for the end of the launcher and returns its exit status.
func (j *job) finish() int {
	j.Helper()
	select {
	case <-j.ended:
	case <-time.After(patience):
		require.FailNow(j, "a hang", "the launcher has not ended within %v; processes %v", patience, j.processes())
	}
	return j.cmd.ProcessState.ExitCode()
}

// processes returns the processes of the job that there are.
func (j *job) processes() []int {
	var pids []int
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(j, err)
	for _, path := range all {
		if env, err := os.ReadFile(path); err == nil && bytes.Contains(env, []byte(marker+"="+j.id+"\x00")) {
			pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

// rank returns the process of a rank.
func (j *job) rank(r int) int {
	j.Helper()
	for _, pid := range j.processes() {
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if exe == j.moe_lm && bytes.Contains(env, []byte(fmt.Sprintf("\x00GOMOE_RANK=%d\x00", r))) {
			return pid
		}
	}
	require.FailNow(j, "no process", "rank %d has none", r)
	return 0
}

func (j *job) signal(r int, s syscall.Signal) {
	j.Helper()
	require.NoError(j, syscall.Kill(j.rank(r), s), "rank %d", r)
}

// blames checks that every survivor has said that the victim is lost.
func (j *job) blames(victim int) {
	j.Helper()
	for r := range ranks {
		if r != victim {
			assert.Regexp(j, regexp.MustCompile(fmt.Sprintf(`(?m)^\[%d\] moe_lm: .*\brank %d \(`, r, victim)), j.errs.String())
		}
	}
}

// over checks that nothing of the job is left but its results and flight records.
func (j *job) over() {
	j.Helper()
	for end := time.Now().Add(time.Second); len(j.processes()) > 0 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
	}
	assert.Empty(j, j.processes(), "processes that are left")
	left := []string{}
	err := filepath.WalkDir(j.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !regexp.MustCompile(`^(flight-rank\d\.json|metrics\.csv|training\.png)$`).MatchString(d.Name()) {
			left = append(left, path)
		}
		return err
	})
	require.NoError(j, err)
	assert.Empty(j, left, "files that are left")
	require.NoError(j, os.RemoveAll(j.dir))
}
