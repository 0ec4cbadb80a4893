package verbs

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/rdma"
	"github.com/gomoe/gomoe/jaccl/rdma/rdmatest"
)

// What a rank lacks is an error on every rank, with the remedy, and leaves nothing
// behind.
func TestConnectErrors(t *testing.T) {
	for _, c := range []struct {
		name, play string
		settings   rdma.Settings
		want       string
	}{
		{"no devices", "devices=0", rdma.Settings{}, "no RDMA devices; on a Mac, run rdma_ctl enable"},
		{"no such device", "devices=1", rdma.Settings{}, "no such device, there are [\"rdma_en0\"]"},
		{"port down", "active=0", rdma.Settings{}, "ibv_alloc_pd: no such device (errno 19); the port may be down"},
		{"no gid", "gid=-1", rdma.Settings{}, "no GID of an IPv4 address; give the interface one"},
		{"queue pairs taken", "qps=0", rdma.Settings{}, "ibv_create_qp: device or resource busy (errno 16); all queue pairs of the device are taken, of which Thunderbolt's have 10"},
		{"regions taken", "mrs=1,silent=1", rdma.Settings{}, "ibv_reg_mr: cannot allocate memory (errno 12); all memory regions of the device are taken"},
		{"RC on Thunderbolt", "", rdma.Settings{Service: rdma.RC}, "the device has no such queue pairs; Thunderbolt's are UC"},
		{"list", "refuse=ibv_get_device_list", rdma.Settings{}, "ibv_get_device_list: input/output error (errno 5)"},
		{"open", "refuse=ibv_open_device,errno=13,after=3", rdma.Settings{}, "ibv_open_device: permission denied (errno 13); no permission for the device; on Linux, look at /dev/infiniband"},
		{"cq", "refuse=ibv_create_cq,after=4", rdma.Settings{}, "ibv_create_cq: input/output error"},
		{"qp", "refuse=ibv_create_qp,after=4", rdma.Settings{}, "ibv_create_qp: input/output error"},
		{"mr", "refuse=ibv_reg_mr,after=5", rdma.Settings{}, "ibv_reg_mr: input/output error"},
		{"port", "refuse=ibv_query_port,after=2", rdma.Settings{}, "ibv_query_port: input/output error"},
		{"init", "refuse=ibv_modify_qp,errno=16,after=3", rdma.Settings{}, "queue pair to INIT: ibv_modify_qp: device or resource busy (errno 16); the device is busy; restart the machine"},
		{"rtr", "refuse=ibv_modify_qp,errno=22,after=6", rdma.Settings{}, "queue pair to RTR: ibv_modify_qp: invalid argument (errno 22); the port has no usable GID, or a Thunderbolt bridge is still up"},
		{"rtr late", "refuse=ibv_modify_qp,errno=110,after=8", rdma.Settings{}, "ibv_modify_qp: connection timed out (errno 110); the peer's GID is not on this link"},
		{"rts", "refuse=ibv_modify_qp,after=17", rdma.Settings{}, "queue pair to RTS: ibv_modify_qp"},
		{"limit", "", rdma.Settings{Regions: 1}, "faces 1 ranks, which takes 2 memory regions, and 0 for leases, 2 in all, and has 1"},
		{"settings", "", rdma.Settings{Regions: -1}, "settings of 0 queue pairs, -1 regions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			const n = 3
			c.settings.Library = rdmatest.Standin(t, c.play)
			links, errs := connectAll(t, n, rdmatest.Mesh(n), c.settings)
			found := 0
			for i, err := range errs {
				if links[i] != nil || err == nil {
					t.Fatalf("rank %d connected, want an error", i)
				}
				if strings.Contains(strings.ToLower(err.Error()), strings.ToLower(c.want)) {
					found++
				} else if !strings.Contains(err.Error(), "failed: ") {
					t.Errorf("rank %d: %q, want %q", i, err, c.want)
				}
			}
			if found != n {
				t.Errorf("%d ranks say %q, want all; rank 0: %v", found, c.want, errs[0])
			}
		})
	}
}

// Limits, those of the settings and those that a device tells, are looked at before a device
// is asked for anything.
func TestLimits(t *testing.T) {
	devices := rdmatest.Mesh(4)
	for i := range devices {
		for j := range devices[i] {
			if i != j {
				devices[i][j] = []string{"mlx5_0"}
			}
		}
	}
	_, errs := connectAll(t, 4, devices, rdma.Settings{Library: rdmatest.Standin(t, "mlx=1"), QueuePairs: 2, Regions: 5})
	for _, err := range errs {
		rdmatest.Contains(t, err, "device mlx5_0 faces 3 ranks, which takes 3 queue pairs, and has 2", "device mlx5_0 faces 3 ranks, which takes 6 memory regions, and 0 for leases, 6 in all, and has 5")
	}
	_, errs = connectAll(t, 4, devices, rdma.Settings{Library: rdmatest.Standin(t, "mlx=1,qps=2,mrs=200")})
	for _, err := range errs {
		rdmatest.Contains(t, err, "device mlx5_0 faces 3 ranks, which takes 3 queue pairs, and has 2")
	}
	_, errs = connectAll(t, 4, devices, rdma.Settings{Library: rdmatest.Standin(t, "mlx=1,qps=12,mrs=200")}) // more than Thunderbolt's
	require.NoError(t, errors.Join(errs...))

	links := linked(t, 2, "")
	l := links[0].(*Link)
	for i := range 98 {
		_, err := l.Alloc(100)
		require.NoError(t, err, "arena %d", i)
	}
	_, err := l.Alloc(100)
	rdmatest.Contains(t, err, "rdma: arena of 100 bytes: device rdma_en1 faces 1 ranks, which takes 2 memory regions, and 99 for leases, 101 in all, and has 100; release some, or ask for fewer and larger ones")
	_, err = l.Alloc(-1)
	rdmatest.Contains(t, err, "arena of -1 bytes")
}

// An arena that only some devices take is none.
func TestArenaRefused(t *testing.T) {
	links := linked(t, 3, "refuse=ibv_reg_mr,errno=12,after=15") // 12 slabs, an arena, and half of one
	l := links[1].(*Link)
	_, err := l.Alloc(100)
	require.NoError(t, err)
	_, err = l.Alloc(100)
	rdmatest.Contains(t, err, "device rdma_en8: ibv_reg_mr", "errno 12") // the second one, by name
	if n := regionsOf(t, l); n != 1 {
		t.Errorf("%d arenas are registered, want 1", n)
	}
}

func TestConnectDevices(t *testing.T) {
	lib := rdmatest.Standin(t, "")
	for _, c := range []struct {
		devices hostfile.Devices
		want    string
	}{
		{rdmatest.Mesh(3), "devices of 3 ranks, want those of 2"},
		{hostfile.Devices{{nil, nil}, {nil, nil}}, "no device of rank 0 faces rank 1"},
		{hostfile.Devices{{nil, {"a"}}, {nil, nil}}, "want a device at both ends"},
	} {
		_, errs := connectAll(t, 2, c.devices, rdma.Settings{Library: lib})
		for _, err := range errs {
			rdmatest.Contains(t, err, c.want)
		}
	}
	_, errs := connectAll(t, 1, nil, rdma.Settings{Library: lib})
	require.NoError(t, errs[0])
}

// One rank fails, and the others say which one.
func TestConnectBlame(t *testing.T) {
	lib := rdmatest.Standin(t, "")
	devices := rdmatest.Mesh(3)
	devices[1][2] = []string{"rdma_en63"}
	devices[1][0] = []string{"none_such"}
	_, errs := connectAll(t, 3, devices, rdma.Settings{Library: lib})
	for i, err := range errs {
		rdmatest.Contains(t, err, "device none_such, which faces rank 0: no such device")
		if i != 1 {
			rdmatest.Contains(t, err, "rank 1 (host1) failed")
		}
	}
}

func TestMatch(t *testing.T) {
	l := &Link{size: 2}
	l.eps = []*rdma.Endpoint{{Service: rdma.UC}, nil}
	mac := l.offers()
	l.eps = []*rdma.Endpoint{{Service: rdma.RC}, nil}
	nic := l.offers()
	site := hosts{}
	rdmatest.Contains(t, l.match(site, [][]byte{append(nic[offerSize:], mac[:offerSize]...), nic}), "rank 1 (hostb) has RC queue pairs and rank 0 (hosta) UC, want one kind")
	rdmatest.Contains(t, l.match(site, [][]byte{nic, nic[1:]}), "rank 1 (hostb) offers 65 bytes, want 66 for a mesh of 2 on 1 wires")
}

type hosts struct{ link.Site }

func (hosts) Host(rank int) string { return fmt.Sprintf("host%c", 'a'+rank) }
