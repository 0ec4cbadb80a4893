package hostfile

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseDevices(t *testing.T) {
	for _, c := range []struct{ name, src string }{
		{"cells", `[[null, "rdma_en5", ["rdma_en6"]], ["rdma_en2", null, "rdma_en3"], ["a", ["b"], []]]`},
		{"objects", `[{"ssh": "h", "rdma": [null, "rdma_en5", "rdma_en6"]}, ["rdma_en2", null, "rdma_en3"], {"rdma": ["a", "b", null]}]`},
	} {
		d, err := ParseDevices([]byte(c.src))
		require.NoError(t, err, c.name)
		want := "[[[] [rdma_en5] [rdma_en6]] [[rdma_en2] [] [rdma_en3]] [[a] [b] []]]"
		if got := fmt.Sprint(d); got != want {
			t.Errorf("%s: %s, want %s", c.name, got, want)
		}
		if err := d.Mesh(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	wires, err := ParseDevices([]byte(`[[null, ["rdma_en5", "rdma_en6"]], [["rdma_en1", "rdma_en2"], null]]`))
	require.NoError(t, err)
	if got := fmt.Sprint(wires[0][1]); got != "[rdma_en5 rdma_en6]" {
		t.Errorf("two wires are %s", got)
	}
	if _, err := ParseDevices([]byte(`[[null, "mlx5_0", "mlx5_0"], ["mlx5_0", null, "mlx5_0"], ["mlx5_0", "mlx5_0", null]]`)); err != nil {
		t.Errorf("an adapter that faces two peers: %v", err)
	}
}

func TestParseDevicesErrors(t *testing.T) {
	row := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("null,", n), ",") + "]" }
	many := "[" + strings.TrimSuffix(strings.Repeat(row(65)+",", 65), ",") + "]"
	for _, c := range []struct{ src, want string }{
		{``, "ends in the middle; is it complete?; want a list"},
		{`{}`, "want a list with one list of devices for every rank"},
		{`[]`, "0 rows, want one for each of 1 to 64 ranks"},
		{`[[null, "a"]]`, "row of rank 0 has 2 cells, want one for each of 1 ranks"},
		{`[[null, "a"], ["b"]]`, "row of rank 1 has 1 cells, want one for each of 2 ranks"},
		{`[["a", "b"], ["c", null]]`, `cell of rank 0 in its own row is ["a"], want null`},
		{`[[null, "b"], [null, null]]`, "rank 0 faces rank 1 with 1 devices and that one faces it with 0, want a device at both ends"},
		{`[[null, ["a", "b"]], ["c", null]]`, "rank 0 faces rank 1 with 2 devices and that one faces it with 1"},
		{`[[null, ["a", "a"]], [["b", "c"], null]]`, "rank 0 faces rank 1 with a twice"},
		{`[[null, "rdma_en5", "rdma_en5"], ["a", null, "b"], ["a", "b", null]]`, "rank 0 faces both rank 1 and rank 2 with rdma_en5, want another device for each"},
		{`[[null, ""], ["a", null]]`, "row of rank 0: cell of rank 1: a device without a name, want null"},
		{`[[null, "a b"], ["a", null]]`, `with "a b", want a device's name`},
		{`[[null, 5], ["a", null]]`, "row of rank 0: cell of rank 1: 5, want null, a device's name or a list of names"},
		{`[[null, ["a", null]], ["a", null]]`, `cell of rank 1: ["a",null], want null, a device's name or a list of names`},
		{`[null, [null]]`, `row of rank 0: "null", want a list of devices`},
		{`["rdma_en5"]`, `row of rank 0: "\"rdma_en5\"", want a list of devices`},
		{`[{"ssh": "h"}]`, `an object without "rdma"`},
		{`[[null, ["a", "b", "c", "d", "e"]], [["a", "b", "c", "d", "e"], null]]`, "with 5 devices, want at most 4"},
		{many, "65 rows, want at most 64"},
		{strings.Repeat(" ", maxDevicesSize+1), "1048577 bytes, want at most 1048576"},
	} {
		d, err := ParseDevices([]byte(c.src))
		if err == nil {
			t.Errorf("%.60s: got %v, want an error with %q", c.src, d, c.want)
		} else if !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "hostfile: devices: ") {
			t.Errorf("%.60s: %q, want %q", c.src, err, c.want)
		}
	}
}

func TestMesh(t *testing.T) {
	ring := Devices{{nil, {"a"}, nil, {"b"}}, {{"a"}, nil, {"b"}, nil}, {nil, {"a"}, nil, {"b"}}, {{"a"}, nil, {"b"}, nil}}
	require.NoError(t, ring.Check())
	nine := make(Devices, 9)
	for i := range nine {
		nine[i] = make([][]string, 9)
		for j := range nine[i] {
			if i != j {
				nine[i][j] = []string{"mlx5_0"}
			}
		}
	}
	require.NoError(t, nine.Check())
	for _, c := range []struct {
		d    Devices
		want string
	}{
		{ring, "no device of rank 0 faces rank 2"},
		{nine, "9 ranks, want 2 to 8 for a mesh"},
		{Devices{{nil}}, "1 ranks, want 2 to 8"},
	} {
		if err := c.d.Mesh(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.d, err, c.want)
		}
	}
}

// A matrix that is accepted is sound, and reads the same when it is written again.
func FuzzParseDevices(f *testing.F) {
	f.Add([]byte(`[[null, "rdma_en5"], [["rdma_en3"], null]]`))
	f.Add([]byte(`[{"rdma": [null, ["a", "b"]]}, [["a", "b"], null]]`))
	f.Add([]byte(`[[null, 5], ["a"]]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := ParseDevices(data)
		if err != nil {
			return
		}
		if err := d.Check(); err != nil {
			t.Fatalf("accepted, but %v", err)
		}
		again, err := json.Marshal(d)
		require.NoError(t, err)
		e, err := ParseDevices(again)
		require.NoError(t, err)
		for i := range d {
			for j := range d[i] {
				if len(d[i][j])+len(e[i][j]) > 0 && !reflect.DeepEqual(d[i][j], e[i][j]) {
					t.Fatalf("cell %d, %d is %q, read again %q", i, j, d[i][j], e[i][j])
				}
			}
		}
	})
}
