package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/internal/infile"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/sharding"
)

// copying is the flag choosing the expert replicas of each rank.
type copying struct {
	flag  string
	loads []byte // the file's contents
}

// flags adds the flag.
func (c *copying) flags(fs *flag.FlagSet) {
	fs.StringVar(&c.flag, "copies", "", "replicas of hot experts: the number of `additional` experts per rank, such as 2, a file of loads written by gomoe eval -json, or both, such as 2,loads.json. The generated tokens stay the same")
}

// maxLoads is the largest file of loads in bytes. A model with 61 layers of 384 experts has 0.5 MB.
const maxLoads = 64 << 20

// parse returns the replicas of each layer's experts on a mesh, nil if there are none.
func (c *copying) parse(m sharding.Mesh) (func(layer string, experts int) (ep.Copies, error), error) {
	if c.flag == "" {
		return nil, nil
	}
	number, path, both := strings.Cut(c.flag, ",")
	further, err := strconv.Atoi(number)
	switch {
	case err != nil && !both: // only a file
		further, path = 1, c.flag
		if m.Ranges("ep") != nil {
			further = 0 // the ranges give the number of experts of each rank
		}
	case err != nil || further < 0 || both && path == "":
		return nil, usagef("-copies %s: want how many more experts each rank holds, such as 2, a file of loads, or both with a comma between them", quoted.Text(c.flag))
	}
	var loads map[string][]float64
	if path != "" {
		if c.loads, err = infile.Read(path, maxLoads); err != nil {
			return nil, fmt.Errorf("-copies: %w", err)
		}
		var measured evaluated
		if err := json.Unmarshal(c.loads, &measured); err != nil {
			return nil, fmt.Errorf("-copies %s: want what gomoe eval -json prints: %w", plainText(path), err)
		}
		if len(measured.Load) == 0 {
			return nil, fmt.Errorf("-copies %s: no loads of experts; want what gomoe eval -json prints for a model with experts", plainText(path))
		}
		loads = map[string][]float64{}
		for _, l := range measured.Load {
			loads[l.Layer] = l.Shares
		}
	}
	return nn.BalanceCopies(m, further, loads), nil
}

// check returns an error if the model has no experts to replicate.
func (c *copying) check(m *models.Model) error {
	if c.flag != "" && m.Experts == 0 {
		return usagef("-copies %s: the model has no experts; leave it out", c.flag)
	}
	return nil
}

// fact returns the text that must be equal in all processes.
func (c *copying) fact() string {
	h := fnv.New64a()
	_, _ = h.Write(c.loads)
	number, _, _ := strings.Cut(c.flag, ",")
	if _, err := strconv.Atoi(number); err != nil {
		number = "" // the path may differ between machines
	}
	return fmt.Sprintf("%s loads %x", number, h.Sum64())
}
