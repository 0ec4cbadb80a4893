package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/world"
)

// names finds hosts listed twice.
func (s Setup) names(r *Report) {
	for i, h := range s.Hosts.Hosts {
		for _, o := range s.Hosts.Hosts[:i] {
			if o.SSH == h.SSH && !hostfile.IsLocal(h.SSH) {
				r.add(Warning, "give each machine one entry, and more ranks by -n", "the host is listed twice: its ranks share its cores and memory", h.SSH)
			}
		}
	}
}

// addresses finds addresses through which ranks cannot reach each other.
func (s Setup) addresses(r *Report) {
	several := len(s.Hosts.Hosts) > 1
	owner := map[netip.Addr]string{}
	for i, h := range s.Hosts.Hosts {
		if len(h.IPs) == 0 && several {
			level, what := Warning, "no address in the hostfile: the name that ssh is told is used, if it resolves everywhere"
			if i == 0 {
				what = "no address in the hostfile, and it is the coordinator: the others use the name that ssh is told, if it resolves there"
			}
			if t := s.known(); t.MLX && (i == 0 || !t.Devices) { // MLX needs the coordinator's address, or all
				level = Wrong
			}
			r.add(level, `add "ips": ["10.0.0.1"], with an address that the other hosts reach`, what, h.SSH)
		}
		for _, text := range h.IPs {
			a, err := netip.ParseAddr(text)
			if err != nil {
				r.add(Wrong, "write an address such as 10.0.0.1", fmt.Sprintf("ips: %s is no address", quoted.Text(text)), h.SSH)
				continue
			}
			a = a.Unmap()
			if o, ok := owner[a.WithZone("")]; ok && !hostfile.IsLocal(h.SSH) && o != h.SSH {
				r.add(Wrong, "give each host an address of its own; ifconfig or ip addr on both says which it has", fmt.Sprintf("both have the address %s", a), o, h.SSH)
			}
			owner[a.WithZone("")] = h.SSH
			what := ""
			fix := "use an address that the other hosts have a route to"
			switch {
			case a.IsUnspecified():
				what = "it stands for all addresses, and can be listened at but not reached"
			case a.IsMulticast():
				what = "it is a group's, not a host's"
			case a.IsLoopback() && several:
				what = "it is this machine's own on every machine"
			case a.Is6() && a.IsLinkLocalUnicast() && a.Zone() == "":
				what = "it is link-local, and does not say on which interface"
				fix = "add the interface, as in fe80::1%en5, which is right only on that machine; better use another address"
			case a.IsLinkLocalUnicast():
				what = "it is link-local: it is reached over one cable only, and may change"
				fix = "give the interface a fixed address; mlx.distributed_config --auto-setup does so for Thunderbolt"
			}
			if what != "" {
				level := Wrong
				if a.IsLinkLocalUnicast() && (a.Is4() || a.Zone() != "") {
					level = Warning
				}
				r.add(level, fix, fmt.Sprintf("address %s: %s", a, what), h.SSH)
			}
			if i == 0 && text == h.IPs[0] && a.Is6() && (s.known().MLX && s.known().Devices || s.transport() == "jaccl-ring") {
				r.add(Wrong, "put an IPv4 address first", fmt.Sprintf("address %s: JACCL's coordinator takes IPv4 only", a), h.SSH)
			}
		}
	}
}

// backend finds unknown names of transports, and missing requirements of known ones.
func (s Setup) backend(r *Report) {
	t := s.known()
	switch name := s.transport(); {
	case name == "jaccl-ring":
		r.add(Wrong, "use verbs or jaccl with a cable between every two hosts, or tcp", "transport jaccl-ring: JACCL's ring is not supported; its mesh is")
	case name == "nccl":
		r.add(Wrong, "use tcp", "transport nccl: that is for NVIDIA's GPUs")
	case t.Name == "":
		r.add(Wrong, "use one of "+world.TransportNames(), fmt.Sprintf("there is no transport %s", quoted.Text(name)))
	case t.OneHost && len(s.Hosts.Hosts) > 1:
		r.add(Wrong, "leave the transport away: ranks of one host use shared memory, others tcp", fmt.Sprintf("transport %s does not reach over %d hosts", name, len(s.Hosts.Hosts)))
	case t.MLX && !t.Devices:
		n := len(s.Hosts.Hosts[0].IPs)
		for _, h := range s.Hosts.Hosts[1:] {
			if len(h.IPs) != n {
				r.add(Wrong, "give all the same number", fmt.Sprintf("%d addresses and %d: a ring has as many connections everywhere", n, len(h.IPs)), s.Hosts.Hosts[0].SSH, h.SSH)
			}
		}
		r.add(Note, "use tcp for models with experts on several ranks whose tokens are split over the experts' axis", "MLX's ring has no all_to_all")
	}
}

// queuePairs is a hardware limit of JACCL, from Apple's TN3205 and from users' reports.
const queuePairs = 10 // per Thunderbolt device; an opened device reports its exact limit

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
	case len(hosts) > hostfile.MaxMesh:
		r.add(Wrong, fmt.Sprintf("use at most %d hosts, or tcp", hostfile.MaxMesh), fmt.Sprintf("%d hosts: a mesh has at most %d", len(hosts), hostfile.MaxMesh))
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
