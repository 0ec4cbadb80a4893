package doctor

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/gomoe/gomoe/internal/quoted"
)

// Prober asks machines.
type Prober interface {
	// Ask returns a machine's report about itself and about the addresses in reach that it can
	// connect to. It returns soon after ctx ends.
	Ask(ctx context.Context, host string, reach []string) (Machine, error)
}

// Machine is a host's report about itself.
type Machine struct {
	Name string // the host's own name
	ID   string // unique per machine and boot; empty if it has none
	OS   string // Linux or Darwin
	Arch string
	CPUs int
	// Skew is the machine's clock minus this machine's, known to within Uncertain.
	Skew, Uncertain time.Duration
	Addresses       []netip.Addr
	Libraries       map[string]string // paths of installed libraries, by name
	Devices         []string          // names of RDMA devices
	Locked          int64             // bytes that a process may lock, -1 for any number
	Files           int64             // files that a process may open, -1 for any number
	Shared          int64             // free bytes of shared memory, -1 if unknown
	Refused         string            // an existing device file that may not be opened
	Reached         map[string]bool   // whether each address was reached
	Apple
}

// maxAnswer is the limit on a machine's answer in bytes.
const maxAnswer = 1 << 20

// parse parses the output of probe.sh.
func parse(out []byte, asked, answered time.Time) (Machine, error) {
	m := Machine{Libraries: map[string]string{}, Reached: map[string]bool{}, Locked: -1, Files: -1, Shared: -1}
	if len(out) > maxAnswer {
		return m, fmt.Errorf("an answer of %d bytes, want at most %d", len(out), maxAnswer)
	}
	complete := false
	for l := bufio.NewScanner(bytes.NewReader(out)); l.Scan(); {
		key, value, _ := strings.Cut(l.Text(), " ")
		value = strings.TrimSpace(value)
		m.read(key, value)
		switch key {
		case "name":
			m.Name = value
		case "id":
			m.ID = value
		case "os":
			m.OS = value
		case "arch":
			m.Arch = value
		case "cpus":
			m.CPUs, _ = strconv.Atoi(value)
		case "clock": // in seconds, with a fraction if the machine's date command has one
			s, err := strconv.ParseFloat(value, 64)
			if err != nil || s < 0 || s > 1e11 {
				return m, fmt.Errorf("its clock says %s, want seconds", quoted.Text(value))
			}
			middle := asked.Add(answered.Sub(asked) / 2)
			m.Skew = time.Unix(int64(s), int64((s-float64(int64(s)))*1e9)).Sub(middle)
			m.Uncertain = answered.Sub(asked) / 2
			if !strings.Contains(value, ".") {
				m.Uncertain += time.Second
			}
		case "address":
			if a, err := netip.ParseAddr(value); err == nil {
				m.Addresses = append(m.Addresses, a.Unmap())
			}
		case "library":
			name, path, _ := strings.Cut(value, " ")
			m.Libraries[name] = path
		case "device":
			m.Devices = append(m.Devices, value)
		case "locked":
			m.Locked = limit(value, 1024)
		case "files":
			m.Files = limit(value, 1)
		case "shared":
			m.Shared = limit(value, 1024)
		case "refused":
			m.Refused = value
		case "reach":
			address, yes, _ := strings.Cut(value, " ")
			m.Reached[address] = yes == "yes"
		case "end":
			complete = true
		}
	}
	if !complete {
		return m, errors.New("its answer breaks off")
	}
	return m, nil
}

// limit parses a number of units. It returns -1 for "unlimited" and for anything that is not a
// number.
func limit(s string, unit int64) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > 1<<62/unit {
		return -1
	}
	return n * unit
}
