package hostfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"unicode"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/strictjson"
)

// maxSize is the largest size of a hostfile in bytes, and maxHosts the largest number
// of its hosts.
const (
	maxSize  = 4 << 20
	maxHosts = 4096
)

// Hosts is a hostfile of mlx.launch: the hosts of a job, one entry per rank or
// per equal number of ranks.
type Hosts struct {
	Backend string   // ring, jaccl, jaccl-ring, mpi, nccl; empty if missing in the file
	Envs    []string // NAME=value, set for every rank
	Hosts   []Host
}

// Host is one entry of a hostfile.
type Host struct {
	SSH  string     // the destination for ssh: a name, user@name, or localhost for this machine
	IPs  []string   // addresses at which other hosts reach this one, in the file's order; may be empty
	RDMA [][]string // RDMA[j] lists this host's devices that face host j, nil for none; RDMA is nil if missing in the file
}

// ParseHosts reads a hostfile, which is an object or only its list of hosts:
//
//	{"backend": "jaccl", "envs": ["NAME=value"], "hosts": [
//	  {"ssh": "user@a", "ips": ["10.0.0.1"], "rdma": [null, "rdma_en5"]},
//	  {"ssh": "b", "ips": ["10.0.0.2"], "rdma": ["rdma_en5", null]}]}
//
// Errors name the host by its number, from 0, and by its name. Other members are errors, as they would have no effect.
//
// Source: Hostfile in MLX's python/mlx/_distributed_utils.
func ParseHosts(data []byte) (*Hosts, error) {
	if len(data) > maxSize {
		return nil, fmt.Errorf("hostfile: %d bytes, want at most %d", len(data), maxSize)
	}
	var h Hosts
	var list []json.RawMessage
	switch first := firstByte(data); first {
	case '[':
		if err := strictjson.UnmarshalOnce(data, &list); err != nil {
			return nil, fmt.Errorf("hostfile: %w", err)
		}
	case '{':
		var file struct {
			Backend *string            `json:"backend"`
			Envs    *[]string          `json:"envs"`
			Hosts   *[]json.RawMessage `json:"hosts"`
		}
		if err := strictjson.UnmarshalKnown(data, &file); err != nil {
			return nil, fmt.Errorf("hostfile: %w", err)
		}
		if file.Hosts == nil {
			return nil, errors.New(`hostfile: no "hosts", want a list of objects such as {"ssh": "name", "ips": ["10.0.0.1"]}`)
		}
		list = *file.Hosts
		if file.Backend != nil {
			h.Backend = *file.Backend
		}
		if file.Envs != nil {
			h.Envs = *file.Envs
		}
	case 0:
		return nil, errors.New(`hostfile: empty, want {"hosts": [...]} or a list of hosts`)
	default:
		return nil, fmt.Errorf(`hostfile: begins with %q, want JSON: {"hosts": [...]} or a list of hosts`, first)
	}
	for i, e := range h.Envs {
		if err := CheckEnv(e); err != nil {
			return nil, fmt.Errorf("hostfile: envs[%d]: %w", i, err)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("hostfile: no hosts, want at least one")
	}
	if len(list) > maxHosts {
		return nil, fmt.Errorf("hostfile: %d hosts, want at most %d", len(list), maxHosts)
	}
	for i, raw := range list {
		host, err := parseHost(raw, i, len(list))
		if err != nil {
			return nil, err
		}
		h.Hosts = append(h.Hosts, host)
	}
	return &h, nil
}

// CheckEnv returns an error unless e is NAME=value with a name that every shell
// accepts.
func CheckEnv(e string) error {
	name, value, ok := strings.Cut(e, "=")
	if !ok {
		return fmt.Errorf("%s, want NAME=value", quoted.Text(e))
	}
	for i, r := range name {
		if !(r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || i > 0 && r >= '0' && r <= '9') {
			return fmt.Errorf("%s: name %s, want letters, digits and _", quoted.Text(e), quoted.Text(name))
		}
	}
	switch {
	case name == "":
		return fmt.Errorf("%s: no name, want NAME=value", quoted.Text(e))
	case strings.ContainsRune(value, 0):
		return fmt.Errorf("%s: the value has a zero byte, which no environment holds", name)
	}
	return nil
}

func parseHost(raw json.RawMessage, i, n int) (Host, error) {
	var e struct {
		SSH  *string            `json:"ssh"`
		IPs  []string           `json:"ips"`
		RDMA *[]json.RawMessage `json:"rdma"`
	}
	if firstByte(raw) != '{' {
		return Host{}, fmt.Errorf(`hostfile: hosts[%d]: %s, want an object such as {"ssh": "name", "ips": ["10.0.0.1"]}`, i, quoted.JSON(raw))
	}
	if err := strictjson.UnmarshalKnown(raw, &e); err != nil {
		return Host{}, fmt.Errorf("hostfile: hosts[%d]: %w", i, err)
	}
	if e.SSH == nil {
		return Host{}, fmt.Errorf(`hostfile: hosts[%d]: no "ssh", want the name that ssh is told, or localhost`, i)
	}
	h := Host{SSH: *e.SSH, IPs: e.IPs}
	if err := sshName(h.SSH); err != nil {
		return Host{}, fmt.Errorf("hostfile: hosts[%d]: ssh: %w", i, err)
	}
	for k, ip := range h.IPs {
		if net.ParseIP(ip) == nil {
			return Host{}, fmt.Errorf("hostfile: hosts[%d] (%s): ips[%d] is %s, want an address such as 10.0.0.1", i, h.SSH, k, quoted.Text(ip))
		}
	}
	if e.RDMA == nil || len(*e.RDMA) == 0 { // MLX writes an empty list if there are no devices
		return h, nil
	}
	if len(*e.RDMA) != n {
		return Host{}, fmt.Errorf("hostfile: hosts[%d] (%s): rdma has %d entries for %d hosts, want one per host, null for itself", i, h.SSH, len(*e.RDMA), n)
	}
	h.RDMA = make([][]string, n)
	for k, raw := range *e.RDMA {
		devices, err := parseDevices(raw)
		if err != nil {
			return Host{}, fmt.Errorf("hostfile: hosts[%d] (%s): rdma[%d]: %w", i, h.SSH, k, err)
		}
		h.RDMA[k] = devices
	}
	return h, nil
}

// parseDevices reads null, "rdma_en5" or ["rdma_en5", "rdma_en6"].
func parseDevices(raw json.RawMessage) ([]string, error) {
	names := make([]string, 1)
	switch {
	case firstByte(raw) == 'n':
		return nil, nil
	case strictjson.UnmarshalOnce(raw, &names[0]) != nil && strictjson.UnmarshalOnce(raw, &names) != nil:
		return nil, fmt.Errorf("%s, want null, a device's name or a list of names", quoted.JSON(raw))
	}
	for _, s := range names {
		if s == "" {
			return nil, errors.New("a device without a name, want null where there is none")
		}
	}
	return names, nil
}

// sshName returns an error for a name that ssh would take for an option, or that contains
// blanks or characters interpreted by a shell.
func sshName(s string) error {
	switch {
	case s == "":
		return errors.New(`empty, want a name; this machine is "localhost"`)
	case strings.HasPrefix(s, "-"):
		return fmt.Errorf("%s begins with -, which ssh takes for an option", quoted.Text(s))
	case strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || strings.ContainsRune("'\"`$;&|<>()\\", r)
	}):
		return fmt.Errorf("%s, want a name or user@name", quoted.Text(s))
	}
	return nil
}

// firstByte returns the first byte after a byte order mark and white space, 0 if there is none.
func firstByte(data []byte) byte {
	if t := bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\ufeff")), " \t\r\n"); len(t) > 0 {
		return t[0]
	}
	return 0
}

// MaxFile is the longest file, in bytes, that programs read for this package. A host takes about 200 bytes.
const MaxFile = 16 << 20
