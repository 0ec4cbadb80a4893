package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
)

// ask asks all hosts concurrently. A host that does not answer gets a finding and a nil machine.
func (s Setup) ask(ctx context.Context, p Prober, r *Report) []*Machine {
	hosts := s.hosts()
	machines := make([]*Machine, len(hosts))
	errs := make([]error, len(hosts))
	var wg sync.WaitGroup
	for i, h := range hosts {
		var reach []string
		if s.Hosts != nil {
			for k, o := range s.Hosts.Hosts {
				if k != i {
					reach = append(reach, o.IPs...)
				}
			}
		}
		wg.Go(func() {
			m, err := p.Ask(ctx, h, slices.Compact(reach))
			if err != nil {
				errs[i] = err
				return
			}
			machines[i] = &m
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err == nil {
			continue
		}
		text := err.Error()
		fix := fmt.Sprintf("make %s work without a password", quoted.Text("ssh "+hosts[i]+" true"))
		if name := lacking(""); errors.As(err, &name) {
			fix = fmt.Sprintf("install %s, or add its folder to PATH", string(name))
		}
		switch {
		case strings.Contains(text, "Permission denied"):
			fix = fmt.Sprintf("ssh-copy-id %s, so that ssh asks for no password", hosts[i])
		case strings.Contains(text, "Host key verification"):
			fix = fmt.Sprintf("look whether it is the right machine; then ssh-keygen -R %s and ssh %s once", hosts[i], hosts[i])
		case strings.Contains(text, "Could not resolve"), strings.Contains(text, "not known"):
			fix = "correct the name in the hostfile, or add it to ~/.ssh/config"
		case strings.Contains(text, "timed out"), strings.Contains(text, "No route"), strings.Contains(text, "no answer"):
			fix = "look whether it is switched on and on the network, and whether a firewall stands between"
		case strings.Contains(text, "refused"):
			fix = "switch on its ssh server: on a Mac, Sharing, Remote Login"
		}
		r.add(Wrong, fix, "ssh: "+firstLine(text), hosts[i])
	}
	return machines
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	if len(s) > 200 {
		s = s[:200] + "…"
	}
	return s
}

// machines finds missing or wrong settings of single machines.
func (s Setup) machines(all []*Machine, r *Report) {
	hosts := s.hosts()
	for i, m := range all {
		if m == nil {
			continue
		}
		host := hosts[i]
		s.library(host, m, r)
		ranks := int64(max(s.Ranks, 1))
		size := ranks * int64(len(hosts))
		if want := ranks * (4*size + 64); m.Files >= 0 && m.Files < want {
			r.add(Wrong, fmt.Sprintf("ulimit -n %d", max(want, 1024)), fmt.Sprintf("a process may open %d files, and %d ranks of %d need about %d", m.Files, ranks, size, want), host)
		}
		if m.Shared >= 0 && m.Shared < 64<<20 && ranks > 1 {
			r.add(Warning, "mount -o remount,size=50% /dev/shm, or use -transport tcp", fmt.Sprintf("/dev/shm has %d MiB free, through which ranks of one host exchange data", m.Shared>>20), host)
		}
		if m.CPUs > 0 && int64(m.CPUs) < ranks {
			r.add(Note, "use no more ranks than processors, unless it is for a test", fmt.Sprintf("%d ranks on %d processors", ranks, m.CPUs), host)
		}
		if s.Hosts == nil || hostfile.IsLocal(host) && len(hosts) == 1 {
			continue
		}
		for _, text := range s.Hosts.Hosts[i].IPs {
			a, err := netip.ParseAddr(text)
			if err != nil || len(m.Addresses) == 0 {
				continue
			}
			if !slices.ContainsFunc(m.Addresses, func(x netip.Addr) bool { return x.WithZone("") == a.Unmap().WithZone("") }) {
				r.add(Wrong, fmt.Sprintf("write one that it has: %s", list(m.Addresses)), fmt.Sprintf("the host does not have the address %s", text), host)
			}
		}
		if s.known().Devices && s.Hosts.Hosts[i].RDMA != nil && len(m.Devices) > 0 {
			for _, devices := range s.Hosts.Hosts[i].RDMA {
				for _, d := range devices {
					if !slices.Contains(m.Devices, d) {
						r.add(Wrong, "ibv_devices lists them; write the hostfile anew", fmt.Sprintf("there is no device %s, only %s", d, strings.Join(m.Devices, ", ")), host)
					}
				}
			}
		}
	}
}

func list(addrs []netip.Addr) string {
	var s []string
	for _, a := range addrs {
		if !a.IsLoopback() && !a.IsLinkLocalUnicast() {
			s = append(s, a.String())
		}
	}
	if s == nil {
		return "it has none but its own loopback"
	}
	return strings.Join(s, ", ")
}

// library finds libraries required by a transport and missing on the machine, and obstacles to
// using installed ones.
func (s Setup) library(host string, m *Machine, r *Report) {
	have := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return m.Libraries[n] != "" })
	}
	switch t := s.known(); {
	case t.Devices:
		switch {
		case m.OS == "Darwin" && len(m.Devices) == 0:
			r.add(Wrong, "start it in Recovery, run rdma_ctl enable in the Terminal, and restart; it needs macOS 26.2 and Thunderbolt 5", "no RDMA device", host)
		case m.OS == "Linux" && !have("libibverbs.so.1"):
			r.add(Wrong, "apt install libibverbs1 ibverbs-providers", "libibverbs.so.1 is not there", host)
		case m.OS == "Linux" && len(m.Devices) == 0:
			r.add(Wrong, "apt install ibverbs-utils and see what ibv_devices says; use tcp without an RDMA card", "no RDMA device", host)
		}
		if m.Refused != "" {
			r.add(Wrong, "add the user to the device's group: ls -l says which", fmt.Sprintf("%s may not be opened", m.Refused), host)
		}
		if want := int64(64 << 20); m.Locked >= 0 && m.Locked < want {
			r.add(Wrong, "set memlock to unlimited in /etc/security/limits.conf, and log in again", fmt.Sprintf("a process may lock %d KiB, and RDMA's buffers take %d", m.Locked>>10, want>>10), host)
		}
	case t.Launcher != "":
		if !have("libmpi.so.40", "libmpi.so.12", "libmpich.so.12") && m.OS == "Linux" {
			r.add(Wrong, "apt install openmpi-bin", "no MPI library", host)
		}
	}
}

// pairs finds hosts that cannot reach each other, and pairs of hosts naming the same machine.
func (s Setup) pairs(all []*Machine, r *Report) {
	if s.Hosts == nil {
		return
	}
	hosts := s.hosts()
	for i, m := range all {
		if m == nil {
			continue
		}
		for k, o := range all {
			if k == i {
				continue
			}
			for _, ip := range s.Hosts.Hosts[k].IPs {
				if reached, asked := m.Reached[ip]; asked && !reached {
					r.add(Wrong, "look at cable, route (netstat -rn) and firewall of both", fmt.Sprintf("%s does not reach %s at %s", hosts[i], hosts[k], ip), hosts[i], hosts[k])
				}
			}
			if k > i && o != nil && m.ID != "" && m.ID == o.ID && hosts[i] != hosts[k] {
				r.add(Warning, "give each machine one entry, and more ranks by -n", "the two are one machine by two names", hosts[i], hosts[k])
			}
			if k > i && o != nil && m.OS != o.OS {
				r.add(Note, "build the program for both, and look that results of one plan agree", fmt.Sprintf("%s and %s", m.OS, o.OS), hosts[i], hosts[k])
			}
		}
	}
}

// skewed is the clock difference from which on clocks are reported. Only the times in logs depend
// on the clocks: traces are merged by measured offsets.
const skewed = 2 * time.Second

// clocks finds clocks that differ.
func (s Setup) clocks(all []*Machine, r *Report) {
	hosts := s.hosts()
	for i, m := range all {
		for k := i + 1; k < len(all); k++ {
			o := all[k]
			if m == nil || o == nil {
				continue
			}
			apart := (m.Skew - o.Skew).Abs() - m.Uncertain - o.Uncertain
			if apart > skewed {
				r.add(Warning, "switch on the time service of both (systemsetup -setusingnetworktime on, timedatectl set-ntp true)", fmt.Sprintf("their clocks are at least %v apart", apart.Round(time.Second)), hosts[i], hosts[k])
			}
		}
	}
}
