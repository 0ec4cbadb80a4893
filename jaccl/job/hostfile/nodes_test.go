package hostfile_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/job/hostfile"
)

func TestParseNodes(t *testing.T) {
	for _, c := range []struct {
		in   string
		want hostfile.Nodes
	}{
		{`[["127.0.0.1:5000"]]`, hostfile.Nodes{{"127.0.0.1:5000"}}},
		{` [ ["a:1", "a:2"], ["b.local:1","[::1]:65535"] ] `, hostfile.Nodes{{"a:1", "a:2"}, {"b.local:1", "[::1]:65535"}}},
		{`[["[fe80::1%en5]:7000"],["10.0.0.2:7000"]]` + "\n", hostfile.Nodes{{"[fe80::1%en5]:7000"}, {"10.0.0.2:7000"}}},
	} {
		got, err := hostfile.ParseNodes([]byte(c.in))
		require.NoError(t, err, c.in)
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s is %v, want %v", c.in, got, c.want)
		}
	}
}

func TestParseNodesErrors(t *testing.T) {
	for in, want := range map[string]string{
		``:                            "want a list of addresses for each rank",
		`{"hosts":[]}`:                "want a list of addresses for each rank",
		`["a:1"]`:                     "want a list of addresses for each rank",
		`[["a:1"]`:                    "want a list of addresses for each rank",
		`[]`:                          "no ranks, want at least one",
		`null`:                        "no ranks, want at least one",
		`[["a:1"]] x`:                 "column 11: invalid character 'x' after top-level value",
		`[["a:1"]] [["b:1"]]`:         "column 11: invalid character '[' after top-level value",
		`[["a:1"],[]]`:                "rank 1 has no address",
		`[["a:1"],null]`:              "rank 1 has no address",
		`[["a:1","a:2"],["b:1"]]`:     "rank 1 has 1 addresses and rank 0 has 2",
		`[["a:1"],["b"]]`:             `address 0 of rank 1: "b": want host:port`,
		`[["::1:5000"]]`:              `address 0 of rank 0: "::1:5000": want host:port, and [host]:port for an IPv6 address`,
		`[["a:1",null]]`:              "hostfile: nodes: 0.1: null, want a text",
		`[[":5000"]]`:                 `":5000": no host; name a machine`,
		`[["a b:5000"]]`:              "blanks or control characters",
		`[["a:0"]]`:                   `"a:0" has the port 0, want 1 to 65535`,
		`[["a:65536"]]`:               `port "65536", want a number up to 65535`,
		`[["a:http"]]`:                `port "http"`,
		`[["a:"]]`:                    `port ""`,
		`[["a:1"],["b:1"],["a:1"]]`:   "address 0 of rank 2 is a:1, which is address 0 of rank 0 too",
		`[["a:1","a:1"],["b:1","c"]]`: "address 1 of rank 0 is a:1, which is address 0 of rank 0 too",
		strings.Repeat(" ", hostfile.MaxNodesBytes+1): "want at most 1048576",
	} {
		_, err := hostfile.ParseNodes([]byte(in))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "hostfile: nodes: ") {
			t.Errorf("%.40q gives %v, want hostfile: nodes: ...%s", in, err, want)
		}
	}
}

// Nodes that are read make a ring, and read the same when they are written again.
func FuzzParseNodes(f *testing.F) {
	for _, s := range []string{`[["127.0.0.1:5000"],["[::1]:5000"]]`, `[["a:1","a:2"],["b:1","b:2"]]`, `[[""]]`, `[null]`, `{}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		nodes, err := hostfile.ParseNodes(data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "hostfile: nodes: ") {
				t.Errorf("%v, want an error of this package", err)
			}
			return
		}
		for rank, a := range nodes {
			if len(a) == 0 || len(a) != len(nodes[0]) {
				t.Errorf("rank %d has %d addresses, rank 0 has %d", rank, len(a), len(nodes[0]))
			}
		}
		text, err := json.Marshal(nodes)
		require.NoError(t, err)
		again, err := hostfile.ParseNodes(text)
		if err != nil && len(text) <= hostfile.MaxNodesBytes {
			t.Fatalf("%s: %v", text, err)
		}
		if err == nil && !reflect.DeepEqual(nodes, again) {
			t.Errorf("%v is read back as %v", nodes, again)
		}
	})
}
