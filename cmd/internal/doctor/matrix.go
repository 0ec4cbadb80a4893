package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// Hardware limits of JACCL, from Apple's TN3205 and from users' reports.
const (
	meshRanks  = 8
	queuePairs = 10 // per Thunderbolt device; an opened device reports its exact limit
)

// matrix finds mistakes in the matrix of devices connecting the hosts.
func (s Setup) matrix(r *Report) {
	hosts := s.Hosts.Hosts
	stated := 0
	for _, h := range hosts {
		if h.RDMA != nil {
			stated++
		}
	}
	wanted := s.known().Devices || s.transport() == "jaccl-ring"
	switch {
	case !wanted:
		return
	case len(hosts) < 2:
		r.add(Wrong, "use shm or tcp on one machine", s.transport()+" connects machines, and there is one host")
		return
	case stated == 0:
		r.add(Wrong, "mlx.distributed_config --backend jaccl --over thunderbolt writes a hostfile with them", s.transport()+", and no host says what its devices are")
		return
	case len(hosts) > meshRanks:
		r.add(Wrong, fmt.Sprintf("use at most %d hosts, or tcp", meshRanks), fmt.Sprintf("%d hosts: a mesh has at most %d", len(hosts), meshRanks))
	}
	for i, h := range hosts {
		if h.RDMA == nil {
			r.add(Wrong, `add "rdma" with one entry per host, null for itself`, "no devices stated", h.SSH)
			continue
		}
		s.row(i, r)
	}
	for i, a := range hosts {
		for k, b := range hosts[i+1:] {
			k += i + 1
			if a.RDMA == nil || b.RDMA == nil {
				continue
			}
			x, y := a.RDMA[k], b.RDMA[i]
			switch {
			case len(x) == 0 && len(y) == 0:
				r.add(Wrong, "connect them by a cable, and write the hostfile anew; or use tcp", "no device on either side: a mesh has a link between every two hosts", a.SSH, b.SSH)
			case len(x) == 0:
				r.add(Wrong, fmt.Sprintf("add the device of %s that faces %s to entry %d of its row", a.SSH, b.SSH, k), fmt.Sprintf("%s faces %s by %s, which has no device for it", b.SSH, a.SSH, strings.Join(y, ", ")), a.SSH, b.SSH)
			case len(y) == 0:
				r.add(Wrong, fmt.Sprintf("add the device of %s that faces %s to entry %d of its row", b.SSH, a.SSH, i), fmt.Sprintf("%s faces %s by %s, which has no device for it", a.SSH, b.SSH, strings.Join(x, ", ")), a.SSH, b.SSH)
			case len(x) != len(y):
				r.add(Warning, "list both ends of every cable", fmt.Sprintf("%d devices on one side and %d on the other; a mesh uses only as many wires as the pair of hosts with the fewest", len(x), len(y)), a.SSH, b.SSH)
			}
		}
	}
}

// row finds mistakes in one host's devices.
func (s Setup) row(i int, r *Report) {
	h := s.Hosts.Hosts[i]
	if len(h.RDMA[i]) > 0 {
		r.add(Wrong, fmt.Sprintf("write null in entry %d of its row", i), fmt.Sprintf("it faces itself by %s", strings.Join(h.RDMA[i], ", ")), h.SSH)
	}
	peers := map[string][]string{}
	for k, devices := range h.RDMA {
		if k == i {
			continue
		}
		for _, d := range devices {
			peers[d] = append(peers[d], s.Hosts.Hosts[k].SSH)
			if !strings.HasPrefix(d, "rdma_") && !strings.HasPrefix(d, "mlx") && !strings.HasPrefix(d, "rxe") {
				r.add(Warning, "ibv_devices on the host lists their names", fmt.Sprintf("device %s: Thunderbolt's are named rdma_en5 and so on", d), h.SSH)
			}
		}
	}
	names := make([]string, 0, len(peers))
	for d := range peers {
		names = append(names, d)
	}
	slices.Sort(names)
	for _, d := range names {
		n := len(peers[d]) * max(s.Ranks, 1)
		if strings.HasPrefix(d, "rdma_") && len(peers[d]) > 1 {
			r.add(Wrong, "one cable has two ends: look which device faces which host (ibv_devices, system_profiler SPThunderboltDataType)", fmt.Sprintf("device %s faces %s", d, strings.Join(peers[d], " and ")), h.SSH)
		}
		if n > queuePairs {
			r.add(Warning, "use fewer ranks per host, or more devices", fmt.Sprintf("device %s would need %d queue pairs, and Thunderbolt's have about %d", d, n, queuePairs), h.SSH)
		}
	}
}
