package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// Apple is a macOS machine's report on its Thunderbolt ports.
type Apple struct {
	Version string            // of macOS, such as 26.3.1; empty on other systems
	Bridge  bool              // bridge0, joining the ports to one network, is up
	Ports   map[string]string // the IPv4 address of each RDMA device's port, "" for none
}

// read reads a line of probe.sh.
func (a *Apple) read(key, value string) {
	switch key {
	case "version":
		a.Version = value
	case "bridge": // ifconfig's first line: bridge0: flags=8863<UP,BROADCAST,SMART,RUNNING> mtu 1500
		_, flags, _ := strings.Cut(value, "<")
		flags, _, _ = strings.Cut(flags, ">")
		a.Bridge = slices.Contains(strings.Split(flags, ","), "UP")
	case "port":
		device, address, _ := strings.Cut(value, " ")
		if a.Ports == nil {
			a.Ports = map[string]string{}
		}
		a.Ports[device] = address
	}
}

// apple finds settings that prevent RDMA over the ports of machines with macOS.
func (s Setup) apple(all []*Machine, r *Report) {
	if !s.known().Devices {
		return
	}
	hosts := s.hosts()
	for i, m := range all {
		if m == nil || m.Version == "" {
			continue
		}
		if before(m.Version, 26, 2) {
			r.add(Wrong, "update it to 26.3 or later", fmt.Sprintf("macOS %s has no RDMA", m.Version), hosts[i])
			continue
		}
		if m.Bridge {
			r.add(Wrong, "sudo ifconfig bridge0 down", "bridge0 is up and has the Thunderbolt ports, whose RDMA devices then do not connect", hosts[i])
		}
		for _, d := range m.Devices {
			if address, asked := m.Ports[d]; asked && address == "" && s.uses(i, d) {
				r.add(Wrong, fmt.Sprintf("sudo ifconfig %s inet 169.254.%d.1 netmask 255.255.255.0 alias", strings.TrimPrefix(d, "rdma_"), i+1), fmt.Sprintf("the port of device %s has no IPv4 address, without which the device has no address either", d), hosts[i])
			}
		}
		for k, o := range all[:i] {
			if o != nil && o.Version != "" && before(o.Version, 26, 3) != before(m.Version, 26, 3) && s.known().MLX && s.known().Devices {
				r.add(Wrong, "update both to 26.3 or later", fmt.Sprintf("macOS %s and %s: before 26.3, JACCL sends other messages", o.Version, m.Version), hosts[k], hosts[i])
			}
		}
	}
}

// before reports whether a version is older than major.minor; false if it cannot be parsed.
func before(version string, major, minor int) bool {
	var a, b int
	n, _ := fmt.Sscanf(version, "%d.%d", &a, &b)
	return n > 0 && (a < major || a == major && b < minor)
}

// uses reports whether host i's row of devices, if there is one, contains the device.
func (s Setup) uses(i int, device string) bool {
	if s.Hosts == nil || s.Hosts.Hosts[i].RDMA == nil {
		return true
	}
	return slices.ContainsFunc(s.Hosts.Hosts[i].RDMA, func(cell []string) bool { return slices.Contains(cell, device) })
}
