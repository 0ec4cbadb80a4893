package doctor

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
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

// probe is the script sent to the shell of a machine.
//
//go:embed probe.sh
var probe string

// SSH asks other machines through ssh, and this machine through sh.
type SSH struct {
	// Command is ssh with its options; empty means ssh without asking for passwords.
	Command []string
}

// Ask implements Prober.
func (s SSH) Ask(ctx context.Context, host string, reach []string) (Machine, error) {
	words := []string{"sh", "-s", "--"}
	if !hostfile.IsLocal(host) {
		ssh := s.Command
		if len(ssh) == 0 {
			ssh = []string{"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"}
		}
		words = append(append(append([]string(nil), ssh...), host), words...)
	}
	words = append(words, reach...)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stdin = strings.NewReader(probe)
	cmd.WaitDelay = time.Second
	var out, errs bytes.Buffer
	answer := &bounded{b: &out, most: maxAnswer}
	cmd.Stdout, cmd.Stderr = answer, &bounded{b: &errs, most: 4 << 10}
	asked := time.Now()
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return Machine{}, lacking(words[0])
	}
	if err != nil {
		if ctx.Err() != nil {
			return Machine{}, fmt.Errorf("no answer: %w", context.Cause(ctx))
		}
		if text := strings.TrimSpace(errs.String()); text != "" {
			return Machine{}, errors.New(text)
		}
		return Machine{}, err
	}
	return parse(out.Bytes(), asked, answer.first)
}

// lacking is the error of a program missing on this machine.
type lacking string

func (name lacking) Error() string { return "no program " + string(name) + " on this machine" }

// bounded keeps the first bytes and drops the rest. It records the arrival of the first byte: a
// machine reports its clock first, and the rest takes a while.
type bounded struct {
	b     *bytes.Buffer
	most  int
	first time.Time
}

func (w *bounded) Write(p []byte) (int, error) {
	if w.first.IsZero() {
		w.first = time.Now()
	}
	if room := w.most + 1 - w.b.Len(); room > 0 {
		w.b.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
