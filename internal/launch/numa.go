package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/internal/quoted"
)

// nodeFolder is Linux's folder of the machine's memory nodes and their processors.
const nodeFolder = "/sys/devices/system/node"

// readNodes returns the processors of each memory node, from a folder like Linux's. Only
// processors in allowed count, and nodes without one are left out.
func readNodes(folder fs.FS, allowed []int) ([][]int, error) {
	lists, err := fs.Glob(folder, "node[0-9]*/cpulist")
	if err != nil {
		return nil, err
	}
	number := func(list string) int {
		n, _ := strconv.Atoi(strings.TrimPrefix(path.Dir(list), "node"))
		return n
	}
	slices.SortFunc(lists, func(a, b string) int { return number(a) - number(b) })
	var nodes [][]int
	for _, list := range lists {
		b, err := fs.ReadFile(folder, list)
		if err != nil {
			return nil, err
		}
		all, err := processors(strings.TrimSpace(string(b)))
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", nodeFolder, list, err)
		}
		node := slices.DeleteFunc(all, func(n int) bool { return !slices.Contains(allowed, n) })
		if len(node) > 0 {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) == 0 {
		return nil, errors.New("this system lists no nodes of memory in " + nodeFolder)
	}
	return nodes, nil
}

// processors parses a list such as 0-3,8.
func processors(list string) ([]int, error) {
	var out []int
	if list == "" { // a node with memory only
		return nil, nil
	}
	for _, part := range strings.Split(list, ",") {
		from, to, ok := strings.Cut(part, "-")
		if !ok {
			to = from
		}
		a, err := strconv.Atoi(from)
		b, err2 := strconv.Atoi(to)
		if err != nil || err2 != nil || a < 0 || b < a || b-a > 1<<16 {
			return nil, fmt.Errorf("%s is no list of processors", quoted.Text(list))
		}
		for n := a; n <= b; n++ {
			out = append(out, n)
		}
	}
	return out, nil
}

// processorsOf returns the processors of rank r of n on this machine: the processors of
// its share of the nodes. If there are more ranks than nodes, consecutive ranks share a
// node.
func processorsOf(nodes [][]int, r, n int) []int {
	from := r * len(nodes) / n
	to := max(from+1, (r+1)*len(nodes)/n)
	return slices.Concat(nodes[from:to]...)
}

// bind returns the processors of each rank, from its nodes.
func (o Options) bind(ps []place) ([][]int, error) {
	allowed, err := allowedProcessors()
	if err != nil {
		return nil, fmt.Errorf("launch: numa: %w", err)
	}
	nodes, err := readNodes(o.nodes, allowed)
	if err != nil {
		return nil, fmt.Errorf("launch: numa: %w", err)
	}
	out := make([][]int, len(ps))
	for r, p := range ps {
		if !p.local {
			return nil, fmt.Errorf("launch: numa: rank %d runs on %s, want ranks on this machine only; elsewhere bind them in the command, as with numactl --cpunodebind", r, p.where())
		}
		out[r] = processorsOf(nodes, p.job.LocalRank, p.job.LocalSize)
	}
	return out, nil
}
