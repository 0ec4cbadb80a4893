package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/cmd/internal/doctor"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
)

// world is a Prober of machines that a test makes up. Each has all that a job needs
// until the test takes something away.
type world struct {
	machines map[string]*doctor.Machine
	errs     map[string]error
}

func (w *world) Ask(_ context.Context, host string, reach []string) (doctor.Machine, error) {
	if err := w.errs[host]; err != nil {
		return doctor.Machine{}, err
	}
	m := *w.machines[host]
	reached := map[string]bool{}
	for _, a := range reach {
		yes, set := m.Reached[a]
		reached[a] = yes || !set
	}
	m.Reached = reached
	return m, nil
}

// sound returns the machines of a hostfile, in order.
func sound(h *hostfile.Hosts) *world {
	w := &world{map[string]*doctor.Machine{}, map[string]error{}}
	for i, e := range h.Hosts {
		m := &doctor.Machine{Name: e.SSH, ID: fmt.Sprint("id", i), OS: "Linux", Arch: "arm64", CPUs: 8, Uncertain: time.Millisecond,
			Libraries: map[string]string{"libibverbs.so.1": "/usr/lib/libibverbs.so.1", "libmpi.so.40": "/usr/lib/libmpi.so.40"},
			Locked:    -1, Files: 65536, Shared: 1 << 34, Reached: map[string]bool{}}
		for _, ip := range e.IPs {
			if a, err := netip.ParseAddr(ip); err == nil {
				m.Addresses = append(m.Addresses, a)
			}
		}
		for _, ds := range e.RDMA {
			m.Devices = append(m.Devices, ds...)
		}
		w.machines[e.SSH] = m
	}
	return w
}

const (
	mesh = `{"backend": "jaccl", "hosts": [
		{"ssh": "a", "ips": ["10.0.0.1"], "rdma": [null, "rdma_en1", "rdma_en2"]},
		{"ssh": "b", "ips": ["10.0.0.2"], "rdma": ["rdma_en1", null, "rdma_en3"]},
		{"ssh": "c", "ips": ["10.0.0.3"], "rdma": ["rdma_en1", "rdma_en2", null]}]}`
	plain = `[{"ssh": "a", "ips": ["10.0.0.1"]}, {"ssh": "b", "ips": ["10.0.0.2"]}]`
	ring  = `{"backend": "ring", "hosts": [{"ssh": "a", "ips": ["10.0.0.1"]}, {"ssh": "b", "ips": ["10.0.0.2"]}]}`
)

// swap replaces a part of a hostfile.
func swap(file, old, new string) string {
	if !strings.Contains(file, old) {
		panic(old + " is not in the file")
	}
	return strings.Replace(file, old, new, 1)
}

// TestBroken: every broken set-up has its finding, at its host or pair and with its
// remedy, and no other error.
func TestBroken(t *testing.T) {
	machine := func(name string, f func(m *doctor.Machine)) func(*world) {
		return func(w *world) { f(w.machines[name]) }
	}
	refuse := func(name, text string) func(*world) {
		return func(w *world) { w.errs[name] = errors.New(text) }
	}
	eleven := `{"backend": "jaccl", "hosts": [` + strings.TrimSuffix(strings.Repeat(`{"ssh": "h", "rdma": [null,null,null,null,null,null,null,null,null]},`, 9), ",") + `]}`
	for i := range 9 {
		row := make([]string, 9)
		for k := range row {
			row[k] = fmt.Sprintf(`"rdma_en%d"`, k)
		}
		row[i] = "null"
		eleven = strings.Replace(eleven, `"h", "rdma": [null,null,null,null,null,null,null,null,null]`, fmt.Sprintf(`"h%d", "ips": ["10.0.0.%d"], "rdma": [%s]`, i, i+1, strings.Join(row, ",")), 1)
	}
	for _, tc := range []struct {
		name      string
		file      string
		transport string
		ranks     int
		world     func(*world)
		level     doctor.Level
		hosts     []string
		what, fix string
	}{
		// The matrix of devices.
		{name: "missing link", file: swap(swap(mesh, `"rdma_en3"]`, `null]`), `"rdma_en2", null]`, `null, null]`), level: doctor.Wrong, hosts: []string{"b", "c"}, what: "no device on either side", fix: "cable"},
		{name: "one-sided link", file: swap(mesh, `"rdma_en3"]`, `null]`), level: doctor.Wrong, hosts: []string{"b", "c"}, what: "c faces b by rdma_en2, which has no device", fix: "add the device of b that faces c to entry 2"},
		{name: "faces itself", file: swap(mesh, `["rdma_en1", null, "rdma_en3"]`, `["rdma_en1", "rdma_en7", "rdma_en3"]`), level: doctor.Wrong, hosts: []string{"b"}, what: "faces itself by rdma_en7", fix: "null in entry 1"},
		{name: "one device twice", file: swap(mesh, `null, "rdma_en3"]`, `null, "rdma_en1"]`), level: doctor.Wrong, hosts: []string{"b"}, what: "device rdma_en1 faces a and c", fix: "one cable has two ends"},
		{name: "unequal wires", file: swap(mesh, `"rdma_en3"]`, `["rdma_en3", "rdma_en4"]]`), level: doctor.Warning, hosts: []string{"b", "c"}, what: "2 devices on one side and 1", fix: "both ends"},
		{name: "no row", file: swap(mesh, `, "rdma": ["rdma_en1", "rdma_en2", null]`, ""), level: doctor.Wrong, hosts: []string{"c"}, what: "no devices stated", fix: `add "rdma"`},
		{name: "no rows", file: plain, transport: "jaccl", level: doctor.Wrong, what: "no host says", fix: "mlx.distributed_config"},
		{name: "nine hosts", file: eleven, level: doctor.Wrong, what: "9 hosts: a mesh has at most 8", fix: "tcp"},
		{name: "queue pairs", file: mesh, ranks: 11, level: doctor.Warning, hosts: []string{"a"}, what: "device rdma_en1 would need 11 queue pairs, and Thunderbolt's have about 10", fix: "fewer ranks"},
		{name: "jaccl's ring", file: swap(mesh, `"jaccl"`, `"jaccl-ring"`), level: doctor.Wrong, what: "JACCL's ring is not supported", fix: "tcp"},

		// Addresses and names.
		{name: "duplicate address", file: swap(plain, "10.0.0.2", "10.0.0.1"), level: doctor.Wrong, hosts: []string{"a", "b"}, what: "both have the address 10.0.0.1", fix: "of its own"},
		{name: "link-local IPv6", file: swap(plain, "10.0.0.2", "fe80::1"), level: doctor.Wrong, hosts: []string{"b"}, what: "does not say on which interface", fix: "fe80::1%en5"},
		{name: "link-local IPv4", file: swap(plain, "10.0.0.2", "169.254.3.4"), level: doctor.Warning, hosts: []string{"b"}, what: "link-local", fix: "fixed address"},
		{name: "loopback", file: swap(plain, "10.0.0.2", "127.0.0.1"), level: doctor.Wrong, hosts: []string{"b"}, what: "this machine's own on every machine", fix: "route"},
		{name: "all addresses", file: swap(plain, "10.0.0.1", "0.0.0.0"), level: doctor.Wrong, hosts: []string{"a"}, what: "listened at but not reached", fix: "route"},
		{name: "no address of the coordinator", file: swap(mesh, `"ips": ["10.0.0.1"], `, ""), level: doctor.Wrong, hosts: []string{"a"}, what: "no address in the hostfile, and it is the coordinator", fix: `"ips"`},
		{name: "IPv6 coordinator of JACCL", file: swap(mesh, "10.0.0.1", "fd00::1"), level: doctor.Wrong, hosts: []string{"a"}, what: "IPv4 only", fix: "IPv4 address first"},
		{name: "one host twice", file: swap(plain, `"b", "ips": ["10.0.0.2"]`, `"a", "ips": ["10.0.0.1"]`), level: doctor.Warning, hosts: []string{"a"}, what: "listed twice", fix: "-n"},
		{name: "ring of unequal connections", file: swap(ring, `["10.0.0.2"]`, `["10.0.0.2", "10.0.1.2"]`), level: doctor.Wrong, hosts: []string{"a", "b"}, what: "1 addresses and 2", fix: "same number"},
		{name: "unknown transport", file: plain, transport: "smoke", level: doctor.Wrong, what: `no transport "smoke"`, fix: "tcp, shm, ring"},
		{name: "shared memory between machines", file: plain, transport: "shm", level: doctor.Wrong, what: "does not reach over 2 hosts", fix: "leave the transport away"},

		// Machines.
		{name: "no ssh", file: plain, world: refuse("b", "b: Permission denied (publickey)."), level: doctor.Wrong, hosts: []string{"b"}, what: "Permission denied", fix: "ssh-copy-id b"},
		{name: "another machine's key", file: plain, world: refuse("b", "Host key verification failed."), level: doctor.Wrong, hosts: []string{"b"}, what: "key verification", fix: "ssh-keygen -R b"},
		{name: "unknown name", file: plain, world: refuse("b", "ssh: Could not resolve hostname b: Name or service not known"), level: doctor.Wrong, hosts: []string{"b"}, what: "resolve", fix: "correct the name"},
		{name: "switched off", file: plain, world: refuse("a", "ssh: connect to host a port 22: Connection timed out"), level: doctor.Wrong, hosts: []string{"a"}, what: "timed out", fix: "switched on"},
		{name: "not its address", file: plain, world: machine("b", func(m *doctor.Machine) { m.Addresses = []netip.Addr{netip.MustParseAddr("10.9.9.9")} }), level: doctor.Wrong, hosts: []string{"b"}, what: "does not have the address 10.0.0.2", fix: "10.9.9.9"},
		{name: "no such device", file: mesh, world: machine("c", func(m *doctor.Machine) { m.Devices = []string{"rdma_en1"} }), level: doctor.Wrong, hosts: []string{"c"}, what: "no device rdma_en2, only rdma_en1", fix: "ibv_devices"},
		{name: "RDMA switched off", file: mesh, world: machine("a", func(m *doctor.Machine) { m.OS, m.Devices = "Darwin", nil }), level: doctor.Wrong, hosts: []string{"a"}, what: "no RDMA device", fix: "rdma_ctl enable"},
		{name: "no verbs", file: mesh, world: machine("a", func(m *doctor.Machine) { delete(m.Libraries, "libibverbs.so.1") }), level: doctor.Wrong, hosts: []string{"a"}, what: "libibverbs.so.1 is not there", fix: "apt install"},
		{name: "device not permitted", file: mesh, world: machine("a", func(m *doctor.Machine) { m.Refused = "/dev/infiniband/uverbs0" }), level: doctor.Wrong, hosts: []string{"a"}, what: "uverbs0 may not be opened", fix: "group"},
		{name: "locked memory", file: mesh, world: machine("a", func(m *doctor.Machine) { m.Locked = 64 << 10 }), level: doctor.Wrong, hosts: []string{"a"}, what: "may lock 64 KiB", fix: "memlock"},
		{name: "no MPI", file: plain, transport: "mpi", world: machine("b", func(m *doctor.Machine) { m.Libraries = nil }), level: doctor.Wrong, hosts: []string{"b"}, what: "no MPI library", fix: "openmpi-bin"},
		{name: "few files", file: plain, ranks: 8, world: machine("b", func(m *doctor.Machine) { m.Files = 256 }), level: doctor.Wrong, hosts: []string{"b"}, what: "may open 256 files", fix: "ulimit -n 1024"},
		{name: "little shared memory", file: plain, ranks: 2, world: machine("b", func(m *doctor.Machine) { m.Shared = 1 << 20 }), level: doctor.Warning, hosts: []string{"b"}, what: "/dev/shm has 1 MiB free", fix: "remount"},
		{name: "more ranks than processors", file: plain, ranks: 9, level: doctor.Note, hosts: []string{"a"}, what: "9 ranks on 8 processors", fix: "processors"},

		// Pairs.
		{name: "not reached", file: plain, world: machine("a", func(m *doctor.Machine) { m.Reached["10.0.0.2"] = false }), level: doctor.Wrong, hosts: []string{"a", "b"}, what: "a does not reach b at 10.0.0.2", fix: "firewall"},
		{name: "one machine by two names", file: plain, world: machine("b", func(m *doctor.Machine) { m.ID = "id0" }), level: doctor.Warning, hosts: []string{"a", "b"}, what: "one machine", fix: "one entry"},
		{name: "clocks", file: plain, world: machine("b", func(m *doctor.Machine) { m.Skew = -time.Minute }), level: doctor.Warning, hosts: []string{"a", "b"}, what: "at least 1m0s apart", fix: "set-ntp"},
		{name: "two systems", file: plain, world: machine("b", func(m *doctor.Machine) { m.OS = "Darwin" }), level: doctor.Note, hosts: []string{"a", "b"}, what: "Linux and Darwin", fix: "both"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, err := hostfile.ParseHosts([]byte(tc.file))
			require.NoError(t, err)
			w := sound(h)
			if tc.world != nil {
				tc.world(w)
			}
			r := doctor.Check(t.Context(), doctor.Setup{Hosts: h, Transport: tc.transport, Ranks: tc.ranks}, w)
			found := false
			for _, f := range r {
				if f.Level == tc.level && slices.Equal(f.Hosts, tc.hosts) && strings.Contains(f.What, tc.what) && strings.Contains(f.Fix, tc.fix) {
					found = true
				} else if f.Level == doctor.Wrong && tc.level != doctor.Wrong {
					t.Errorf("an error in a set-up that has none: %v", f)
				}
				if f.What == "" || f.Fix == "" {
					t.Errorf("%v: want what it is and the remedy", f)
				}
			}
			if !found {
				t.Errorf("want %s %v %q with the remedy %q, got\n%v", tc.level, tc.hosts, tc.what, tc.fix, r)
			}
			if r.Wrong() != (tc.level == doctor.Wrong) {
				t.Errorf("the report is wrong: %v", r.Wrong())
			}
		})
	}
}

// TestSound: what is as it should be has no findings.
func TestSound(t *testing.T) {
	for _, file := range []string{mesh, plain} {
		h, err := hostfile.ParseHosts([]byte(file))
		require.NoError(t, err)
		if r := doctor.Check(t.Context(), doctor.Setup{Hosts: h}, sound(h)); len(r) > 0 {
			t.Errorf("%s\n%v", file, r)
		}
	}
}

// TestHere asks this machine, through the same program as any other.
func TestHere(t *testing.T) {
	m, err := doctor.SSH{}.Ask(t.Context(), "localhost", []string{"127.0.0.1"})
	require.NoError(t, err)
	if m.Skew.Abs() > m.Uncertain+2*time.Second {
		t.Errorf("this machine's clock is %v from itself, known within %v", m.Skew, m.Uncertain)
	}
	if m.Name == "" || m.OS == "" || m.CPUs < 1 || !slices.Contains(m.Addresses, netip.MustParseAddr("127.0.0.1")) {
		t.Errorf("this machine says %+v, want its name, system, processors and loopback address", m)
	}
}

// TestSSH: what ssh is given, and what it says when it fails.
func TestSSH(t *testing.T) {
	s := doctor.SSH{Command: []string{"sh", "-c", `echo "ssh: connect to host $0 port 22: Connection refused" >&2; exit 255`}}
	h, err := hostfile.ParseHosts([]byte(`[{"ssh": "far", "ips": ["10.0.0.1"]}]`))
	require.NoError(t, err)
	r := doctor.Check(t.Context(), doctor.Setup{Hosts: h}, s)
	if len(r) != 1 || !strings.Contains(r[0].What, "host far port 22: Connection refused") || !strings.Contains(r[0].Fix, "ssh server") {
		t.Errorf("%v", r)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	r = doctor.Check(ctx, doctor.Setup{Hosts: h}, doctor.SSH{Command: []string{"sh", "-c", "exec sleep 60"}})
	if len(r) != 1 {
		t.Errorf("a host that does not answer: %v", r)
	}
}

// TestAnswer: an answer that breaks off or makes no sense is an error.
func TestAnswer(t *testing.T) {
	for text, want := range map[string]string{
		"clock 1.5\nname a":    "breaks off",
		"clock yesterday\nend": "want seconds",
		strings.Repeat("name aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", 1<<15): "at most",
	} {
		s := doctor.SSH{Command: []string{"sh", "-c", "cat \"$1\"", "sh", write(t, text)}}
		if _, err := s.Ask(t.Context(), "far", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: %v, want %q", text, err, want)
		}
	}
}

func write(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "answer")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
