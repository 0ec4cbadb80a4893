//go:build unix

package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/job/hostfile"
)

// mac runs the probe among commands that answer as a Mac's do, and reads what it says.
func mac(t *testing.T, version, flags, en5 string) Machine {
	t.Helper()
	dir := t.TempDir()
	for name, says := range map[string]string{
		"uname":   `case $1 in -s) echo Darwin;; -m) echo arm64;; esac`,
		"sw_vers": "echo " + version,
		"ifconfig": `case $1 in
bridge0) printf 'bridge0: flags=` + flags + ` mtu 1500\n\toptions=63<RXCSUM,TXCSUM,TSO4,TSO6>\n\tmember: en5 flags=3<LEARNING,DISCOVER>\n';;
en5) printf 'en5: flags=8863<UP,BROADCAST,SMART,RUNNING,SIMPLEX,MULTICAST> mtu 1500\n\tether 36:d6:d0:bd:8b:c4\n\tinet6 fe80::4a:1c%%en5 prefixlen 64\n` + en5 + `\tstatus: active\n';;
en6) printf 'en6: flags=8863<UP,BROADCAST> mtu 1500\n\tinet 192.168.0.2 netmask 0xfffffffc broadcast 192.168.0.3\n';;
esac`,
		"ibv_devices": `printf '    device          \t   node GUID\n    ------          \t----------------\n    rdma_en5        \t36d6d0bd8bc40000\n    rdma_en6        \t36d6d0bd8bc80000\n'`,
		"ip":          "exit 1",
		"hostname":    "echo mac",
		"sysctl":      "echo 5C0B2A54-0000",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+says+"\n"), 0o755))
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-s")
	cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
	cmd.Stdin = strings.NewReader(probe)
	out, err := cmd.Output()
	require.NoError(t, err)
	m, err := parse(out, time.Now(), time.Now())
	require.NoError(t, err, "%s", out)
	return m
}

// macs is a Prober of Macs.
type macs map[string]Machine

func (m macs) Ask(_ context.Context, host string, _ []string) (Machine, error) { return m[host], nil }

// What keeps Thunderbolt's ports from RDMA is found from what macOS's commands print.
func TestApple(t *testing.T) {
	const up, down, address = "8863<UP,BROADCAST,SMART,RUNNING>", "8822<BROADCAST,SMART,SIMPLEX>", `\tinet 169.254.1.1 netmask 0xffff0000 broadcast 169.254.255.255\n`
	good := mac(t, "26.3.1", down, address)
	require.Equal(t, Apple{Version: "26.3.1", Ports: map[string]string{"rdma_en5": "169.254.1.1", "rdma_en6": "192.168.0.2"}}, good.Apple)
	for _, c := range []struct {
		machine Machine
		want    string // of all findings about it; "" for none
	}{
		{good, ""},
		{mac(t, "26.3", up, address), "bridge0 is up and has the Thunderbolt ports"},
		{mac(t, "26.3", down, ""), "the port of device rdma_en5 has no IPv4 address"},
		{mac(t, "26.1", down, address), "macOS 26.1 has no RDMA"},
		{mac(t, "26.2", down, address), "macOS 26.3.1 and 26.2: before 26.3, JACCL sends other messages"},
		{mac(t, "27.0", down, address), ""},
	} {
		hosts := &hostfile.Hosts{Backend: "jaccl", Hosts: []hostfile.Host{
			{SSH: "a", IPs: []string{"192.168.0.2"}, RDMA: [][]string{nil, {"rdma_en5"}}}, {SSH: "b", IPs: []string{"192.168.0.2"}, RDMA: [][]string{{"rdma_en5"}, nil}}}}
		var r Report
		s := Setup{Hosts: hosts}
		a, b := good, c.machine
		s.apple([]*Machine{&a, &b}, &r)
		text := ""
		for _, f := range r {
			text += fmt.Sprintf("%v: %s\n", f.Hosts, f.What)
		}
		if c.want == "" && text != "" || !strings.Contains(text, c.want) || strings.Count(text, "\n") > 1 || c.want != "" && !strings.Contains(text, "b]") {
			t.Errorf("macOS %s: findings %q, want %q about b alone", c.machine.Version, text, c.want)
		}
		checked := Check(t.Context(), s, macs{"a": a, "b": b})
		if c.want != "" && !strings.Contains(fmt.Sprint(checked), c.want) {
			t.Errorf("macOS %s: the report %v does not say %q", c.machine.Version, checked, c.want)
		}
	}
}
