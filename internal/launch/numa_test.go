package launch

import (
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

func TestReadNodes(t *testing.T) {
	list := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s + "\n")} }
	folder := fstest.MapFS{"node0/cpulist": list("0-1,8-9"), "node2/cpulist": list("2-3"), "node10/cpulist": list("4"), "node1/cpulist": list(""), "node3/meminfo": list("")}
	got, err := readNodes(folder, []int{0, 1, 2, 3, 4, 9})
	if want := [][]int{{0, 1, 9}, {2, 3}, {4}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("nodes are %v, %v, want %v", got, err, want)
	}
	if got, err = readNodes(folder, []int{3}); err != nil || !reflect.DeepEqual(got, [][]int{{3}}) {
		t.Errorf("with processor 3 only, nodes are %v, %v", got, err)
	}
	for name, bad := range map[string]fstest.MapFS{
		"lists no nodes": {}, `"0-x" is no list`: {"node0/cpulist": list("0-x")}, `"3-1" is no list`: {"node0/cpulist": list("3-1")},
	} {
		if _, err := readNodes(bad, []int{0}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want %s", err, name)
		}
	}
}

func TestProcessorsOf(t *testing.T) {
	nodes := [][]int{{0, 1}, {2, 3}, {4}}
	for _, c := range []struct {
		n    int
		want [][]int
	}{
		{1, [][]int{{0, 1, 2, 3, 4}}},
		{2, [][]int{{0, 1}, {2, 3, 4}}},
		{3, [][]int{{0, 1}, {2, 3}, {4}}},
		{5, [][]int{{0, 1}, {0, 1}, {2, 3}, {2, 3}, {4}}},
	} {
		for r, want := range c.want {
			if got := processorsOf(nodes, r, c.n); !reflect.DeepEqual(got, want) {
				t.Errorf("rank %d of %d has %v, want %v", r, c.n, got, want)
			}
		}
	}
}
