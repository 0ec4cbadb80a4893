package fleet

import (
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Network is a number of hosts on one machine: network name spaces connected by a bridge.
// The bridge has a name space of its own, so that this machine's interfaces stay as they
// are for the tests running meanwhile.
type Network struct {
	t     *testing.T
	id    string
	hosts int
}

// NewNetwork makes n hosts and removes them when the test ends. It skips the test if it
// does not run as root, or the ip command is missing.
func NewNetwork(t *testing.T, n int) *Network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network name spaces are root's: run as root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("ip is missing: apt install iproute2")
	}
	w := &Network{t: t, id: fmt.Sprintf("fl%08x", crc32.ChecksumIEEE(fmt.Append(nil, os.Getpid(), t.Name()))), hosts: n}
	w.clear()
	t.Cleanup(w.clear)
	w.run("ip netns add %s", w.bridge())
	w.run("ip -n %s link add bridge type bridge", w.bridge())
	w.run("ip -n %s link set bridge up", w.bridge())
	for i := range n {
		w.run("ip netns add %s", w.name(i))
		w.run("ip -n %s link add %s type veth peer name eth0 netns %s", w.bridge(), w.port(i), w.name(i))
		w.run("ip -n %s link set %s master bridge up", w.bridge(), w.port(i))
		w.run("ip -n %s addr add %s/24 dev eth0", w.name(i), w.Address(i))
		w.run("ip -n %s link set eth0 up", w.name(i))
		w.run("ip -n %s link set lo up", w.name(i))
	}
	return w
}

func (w *Network) bridge() string    { return w.id + "br" }
func (w *Network) name(i int) string { return fmt.Sprintf("%sh%d", w.id, i) }
func (w *Network) port(i int) string { return fmt.Sprintf("port%d", i) }
func (w *Network) In(i int) []string { return []string{"ip", "netns", "exec", w.name(i)} }

// Machine is In with separate shared memory for the host, so that ranks of different
// hosts appear to be on different machines.
func (w *Network) Machine(i int) []string {
	dir := w.memory(i)
	require.NoError(w.t, os.MkdirAll(dir, 0o777))
	return append(w.In(i), "sh", "-c", `mount --bind "$0" /dev/shm && exec "$@"`, dir)
}

func (w *Network) memory(i int) string { return "/dev/shm/" + w.name(i) }

func (w *Network) Address(i int) string { return fmt.Sprintf("10.83.0.%d", i+1) }

// Cut takes a host off the bridge, so that every packet from it or to it is lost silently.
func (w *Network) Cut(i int) { w.run("ip -n %s link set %s nomaster", w.bridge(), w.port(i)) }

// Heal undoes Cut.
func (w *Network) Heal(i int) { w.run("ip -n %s link set %s master bridge", w.bridge(), w.port(i)) }

func (w *Network) run(format string, a ...any) {
	words := strings.Fields(fmt.Sprintf(format, a...))
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	require.NoError(w.t, err, "%v: %s", words, out)
}

// clear kills the processes left on the hosts, such as a launcher's daemons that were cut
// off from it, and removes the hosts.
func (w *Network) clear() {
	for i := range w.hosts {
		out, _ := exec.Command("ip", "netns", "pids", w.name(i)).Output()
		for _, word := range strings.Fields(string(out)) {
			if pid, err := strconv.Atoi(word); err == nil {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		exec.Command("ip", "netns", "del", w.name(i)).Run()
		os.RemoveAll(w.memory(i))
	}
	exec.Command("ip", "netns", "del", w.bridge()).Run()
}
