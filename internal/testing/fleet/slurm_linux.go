package fleet

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Slurm is a cluster with this machine as its only node. Its daemons have ports of their
// own and know nothing of any other cluster.
type Slurm struct {
	t   *testing.T
	dir string
	// Env makes Slurm's commands, such as srun, use this cluster.
	Env []string
}

// slurmNeeds is the command that installs the programs on Debian.
const slurmNeeds = "apt install slurm-wlm munge"

// NewSlurm starts a cluster, and skips the test if Slurm or munge is missing. Nothing of
// the cluster is left when the test has ended.
func NewSlurm(t *testing.T) *Slurm {
	t.Helper()
	munged, ctld, slurmd := daemon(t, "munged"), daemon(t, "slurmctld"), daemon(t, "slurmd")
	if _, err := exec.LookPath("srun"); err != nil {
		t.Skipf("srun is missing: %s", slurmNeeds)
	}
	// The path of a socket has at most 108 characters, so the folder's path must be short.
	dir, err := os.MkdirTemp("", "slurm")
	require.NoError(t, err)
	s := &Slurm{t: t, dir: dir, Env: []string{"SLURM_CONF=" + filepath.Join(dir, "slurm.conf")}}
	t.Cleanup(s.clear)
	require.NoError(t, os.Chmod(dir, 0o755)) // munged insists that all users can reach its socket
	for _, d := range []string{"state", "spool"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	require.NoError(t, os.WriteFile(s.path("key"), []byte(strings.Repeat("a key that is only for tests ", 8)), 0o600))
	require.NoError(t, os.WriteFile(s.path("slurm.conf"), []byte(s.conf()), 0o644))
	s.start(munged, "--foreground", "--key-file="+s.path("key"), "--socket="+s.path("munge"),
		"--pid-file="+s.path("munged.pid"), "--log-file="+s.path("munged.log"), "--seed-file="+s.path("seed"))
	s.until("munged listens", func() bool { _, err := os.Stat(s.path("munge")); return err == nil })
	s.start(ctld, "-D", "-f", s.path("slurm.conf"))
	s.start(slurmd, "-D", "-f", s.path("slurm.conf"))
	s.until("the node is idle", func() bool {
		out, err := s.command("sinfo", "--noheader", "--format=%t").Output()
		return err == nil && strings.TrimSpace(string(out)) == "idle"
	})
	return s
}

func (s *Slurm) path(name string) string { return filepath.Join(s.dir, name) }

// conf returns the cluster's configuration. It has no accounting, and no control groups,
// because those belong to the machine.
func (s *Slurm) conf() string {
	s.t.Helper()
	host, err := os.Hostname()
	require.NoError(s.t, err)
	host, _, _ = strings.Cut(host, ".")
	who, err := user.Current()
	require.NoError(s.t, err)
	return fmt.Sprintf(`ClusterName=test
SlurmctldHost=%[1]s(127.0.0.1)
SlurmctldPort=%[2]d
SlurmdPort=%[3]d
SlurmUser=%[4]s
SlurmdUser=%[4]s
AuthType=auth/munge
AuthInfo=socket=%[5]s/munge
CredType=cred/munge
StateSaveLocation=%[5]s/state
SlurmdSpoolDir=%[5]s/spool
SlurmctldPidFile=%[5]s/slurmctld.pid
SlurmdPidFile=%[5]s/slurmd.pid
SlurmctldLogFile=%[5]s/slurmctld.log
SlurmdLogFile=%[5]s/slurmd.log
MailProg=/bin/true
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=1
NodeName=%[1]s NodeAddr=127.0.0.1 CPUs=%[6]d State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:4
`, host, s.port(), s.port(), who.Username, s.dir, runtime.NumCPU())
}

func (s *Slurm) port() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(s.t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// daemon returns the path of a daemon. It also looks in /usr/sbin, which is not in every
// user's PATH.
func daemon(t *testing.T, name string) string {
	t.Helper()
	for _, path := range []string{name, "/usr/sbin/" + name} {
		if p, err := exec.LookPath(path); err == nil {
			return p
		}
	}
	t.Skipf("%s is missing: %s", name, slurmNeeds)
	return ""
}

// command returns a command with the environment of this cluster.
func (s *Slurm) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), s.Env...)
	return cmd
}

// start starts a daemon, and ends it when the test ends.
func (s *Slurm) start(path string, args ...string) {
	s.t.Helper()
	cmd := s.command(path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.Create(s.path(filepath.Base(path) + ".out"))
	require.NoError(s.t, err)
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(s.t, cmd.Start())
	s.t.Cleanup(func() {
		stop := time.AfterFunc(5*time.Second, func() { cmd.Process.Kill() })
		defer stop.Stop()
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
}

func (s *Slurm) until(what string, ok func() bool) {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("Slurm: waited for this: %s\n%s", what, s.logs())
		}
	}
}

func (s *Slurm) logs() string {
	var all strings.Builder
	paths, _ := filepath.Glob(s.path("*.log"))
	outs, _ := filepath.Glob(s.path("*.out"))
	for _, p := range append(paths, outs...) {
		b, _ := os.ReadFile(p)
		fmt.Fprintf(&all, "== %s\n%s", filepath.Base(p), b[max(0, len(b)-4000):])
	}
	return all.String()
}

// clear checks that no process of the cluster is left, neither a daemon nor a job, kills
// remaining ones, and removes the cluster's files.
func (s *Slurm) clear() {
	if s.t.Failed() {
		s.t.Log(s.logs())
	}
	var left []string
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if left = s.processes(0); len(left) == 0 || time.Now().After(end) {
			break
		}
	}
	if len(left) > 0 {
		s.t.Errorf("Slurm leaves %q", left)
		s.processes(syscall.SIGKILL)
	}
	os.RemoveAll(s.dir)
}

// processes returns the processes that have the cluster's folder in their environment or
// among their open files, and sends them a signal if it is not 0.
func (s *Slurm) processes(signal syscall.Signal) (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range all {
		var pid int
		fmt.Sscanf(filepath.Base(p), "%d", &pid)
		if pid == os.Getpid() || !s.owns(p) {
			continue
		}
		line, _ := os.ReadFile(p + "/cmdline")
		found = append(found, fmt.Sprintf("%d: %s", pid, strings.ReplaceAll(string(line), "\x00", " ")))
		if signal != 0 {
			syscall.Kill(pid, signal)
		}
	}
	return found
}

func (s *Slurm) owns(process string) bool {
	if b, _ := os.ReadFile(process + "/environ"); strings.Contains(string(b), s.dir+"/") {
		return true
	}
	files, _ := filepath.Glob(process + "/fd/*")
	for _, f := range files {
		if to, _ := os.Readlink(f); strings.HasPrefix(to, s.dir+"/") {
			return true
		}
	}
	return false
}
