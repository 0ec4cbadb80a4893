package doctor

import (
	"fmt"
	"net/netip"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/world"
)

// names finds hosts listed twice.
func (s Setup) names(r *Report) {
	for i, h := range s.Hosts.Hosts {
		for _, o := range s.Hosts.Hosts[:i] {
			if o.SSH == h.SSH && !local(h.SSH) {
				r.add(Warning, "give each machine one entry, and more ranks by -n", "the host is listed twice: its ranks share its cores and memory", h.SSH)
			}
		}
	}
}

func local(ssh string) bool { return ssh == "localhost" || ssh == "127.0.0.1" || ssh == "::1" }

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
			if o, ok := owner[a.WithZone("")]; ok && !local(h.SSH) && o != h.SSH {
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
