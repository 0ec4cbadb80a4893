package hostfile

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseHosts(t *testing.T) {
	for _, c := range []struct {
		src  string
		want Hosts
	}{
		{`[{"ssh":"localhost"}]`, Hosts{Hosts: []Host{{SSH: "localhost"}}}},
		{` {"hosts": [{"ssh": "u@a", "ips": ["10.0.0.1", "fe80::1"]}, {"ssh": "b", "ips": [], "rdma": []}]}`,
			Hosts{Hosts: []Host{{SSH: "u@a", IPs: []string{"10.0.0.1", "fe80::1"}}, {SSH: "b", IPs: []string{}}}}},
		{`{"backend": "jaccl", "envs": ["A=b=c", "E="], "hosts": [
			{"ssh": "a", "ips": ["10.0.0.1"], "rdma": [null, "rdma_en5"]},
			{"ssh": "b", "ips": ["10.0.0.2"], "rdma": [["rdma_en5", "rdma_en6"], null]}]}`,
			Hosts{Backend: "jaccl", Envs: []string{"A=b=c", "E="}, Hosts: []Host{
				{SSH: "a", IPs: []string{"10.0.0.1"}, RDMA: [][]string{nil, {"rdma_en5"}}},
				{SSH: "b", IPs: []string{"10.0.0.2"}, RDMA: [][]string{{"rdma_en5", "rdma_en6"}, nil}}}}},
	} {
		got, err := ParseHosts([]byte(c.src))
		require.NoError(t, err, c.src)
		if !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.src, *got, c.want)
		}
	}
}

func TestParseHostsWrong(t *testing.T) {
	many := "[" + strings.TrimSuffix(strings.Repeat(`{"ssh":"a"},`, maxHosts+1), ",") + "]"
	for _, c := range []struct{ src, want string }{
		{"", "hostfile: empty, want"},
		{"hosts", `hostfile: begins with 'h', want JSON`},
		{"[]", "hostfile: no hosts"},
		{"{}", `hostfile: no "hosts"`},
		{`{"hosts": null}`, `hostfile: no "hosts"`},
		{`{"hosts": []}`, "hostfile: no hosts"},
		{`{"hosts": {}}`, "hostfile: hosts: object, want a list"},
		{`{"hosts": [`, "hostfile: ends in the middle"},
		{"{\"hosts\": [\n  {\"ssh\": \"a\",}]}", "hostfile: line 2, column 15: invalid character '}'"},
		{`[{"ssh":"a"}] [`, "column 15: invalid character '[' after top-level value"},
		{`["a"]`, `hosts[0]: "a", want an object`},
		{`[{"ssh":"a"}, null]`, `hosts[1]: null, want an object`},
		{`[{"ips":["10.0.0.1"]}]`, `hosts[0]: no "ssh"`},
		{`[{"ssh":"a"},{"ssh":"b","slots":2}]`, `hostfile: hosts[1]: unknown field "slots"`},
		{`{"hosts": [{"ssh":"a"}], "env": []}`, `hostfile: unknown field "env"`},
		{`[{"ssh":7}]`, "hosts[0]: ssh: number, want a text"},
		{`[{"ssh":""}]`, "hosts[0]: ssh: empty"},
		{`[{"ssh":"-oProxyCommand=x"}]`, "begins with -"},
		{`[{"ssh":"a b"}]`, `hosts[0]: ssh: "a b", want a name`},
		{`[{"ssh":"a;rm"}]`, "want a name or user@name"},
		{`[{"ssh":"a"},{"ssh":"b","ips":["b.local"]}]`, `hosts[1] (b): ips[0] is "b.local", want an address`},
		{`[{"ssh":"a","ips":"10.0.0.1"}]`, "hosts[0]: ips: string, want a list of texts"},
		{`[{"ssh":"a","rdma":[null]},{"ssh":"b"}]`, "hosts[0] (a): rdma has 1 entries for 2 hosts"},
		{`[{"ssh":"a","rdma":[3]}]`, "hosts[0] (a): rdma[0]: 3, want null"},
		{`[{"ssh":"a","rdma":[""]}]`, "rdma[0]: a device without a name"},
		{`[{"ssh":"a","rdma":[[null]]}]`, "rdma[0]: [null], want null, a device's name or a list of names"},
		{`{"envs":["A"],"hosts":[{"ssh":"a"}]}`, `envs[0]: "A", want NAME=value`},
		{`{"envs":["A=1","B C=1"],"hosts":[{"ssh":"a"}]}`, `envs[1]: "B C=1": name "B C"`},
		{`{"envs":["=1"],"hosts":[{"ssh":"a"}]}`, `no name`},
		{many, fmt.Sprintf("%d hosts, want at most", maxHosts+1)},
		{strings.Repeat(" ", maxSize+1), "bytes, want at most"},
	} {
		got, err := ParseHosts([]byte(c.src))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80q: %v, %v, want an error with %q", c.src, got, err, c.want)
		}
	}
}

// Whatever the file, a hostfile that is read keeps what the types promise.
func FuzzParseHosts(f *testing.F) {
	f.Add([]byte(`[{"ssh":"localhost"}]`))
	f.Add([]byte(`{"backend":"jaccl","envs":["A=b"],"hosts":[{"ssh":"a","ips":["10.0.0.1"],"rdma":[null,["x","y"]]},{"ssh":"b","rdma":["x",null]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := ParseHosts(data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "hostfile: ") {
				t.Errorf("%q: error %v does not say where it comes from", data, err)
			}
			return
		}
		if len(h.Hosts) == 0 {
			t.Errorf("%q: no hosts and no error", data)
		}
		for _, host := range h.Hosts {
			if host.SSH == "" || host.SSH[0] == '-' || strings.ContainsAny(host.SSH, " '\n") {
				t.Errorf("%q: ssh name %q", data, host.SSH)
			}
			if host.RDMA != nil && len(host.RDMA) != len(h.Hosts) {
				t.Errorf("%q: %d entries of rdma for %d hosts", data, len(host.RDMA), len(h.Hosts))
			}
		}
	})
}

// A name in another case is no field.
func TestExactNames(t *testing.T) {
	_, err := ParseHosts([]byte(`{"hosts": [{"ssh": "a", "SSH": "b"}]}`))
	require.EqualError(t, err, `hostfile: hosts[0]: unknown field "SSH"`)
	_, err = ParseHosts([]byte(`{"hosts": [{"ssh": "a"}], "Backend": "ring"}`))
	require.EqualError(t, err, `hostfile: unknown field "Backend"`)
	d, err := ParseDevices([]byte(`[{"rdma": [null, "x"], "Rdma": 1}, {"rdma": ["y", null]}]`))
	require.NoError(t, err)
	require.Equal(t, Devices{{nil, {"x"}}, {{"y"}, nil}}, d)
}

// A host that is named twice in one entry is an error: which one counts would be chance to whoever reads the file.
func TestTwice(t *testing.T) {
	_, err := ParseHosts([]byte("[\n{\"ssh\": \"a\", \"ips\": [\"10.0.0.1\"]},\n{\"ssh\": \"b\", \"ips\": [\"10.0.0.2\"], \"ssh\": \"c\"}]"))
	require.ErrorContains(t, err, `"ssh" is there twice in one object`)
	_, err = ParseHosts([]byte(`[{"ssh": "a", "ips": ["10.0.0.1"]}, {"ssh": "b", "ips": ["10.0.0.2"]}]`))
	require.NoError(t, err)
}
