package data

import (
	"fmt"
	"strconv"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
)

// format identifies files of tokens.
const format = "gomoe tokens 1"

// shard is an open file of tokens. Its arrays alias the file.
type shard struct {
	*safetensors.File
	tokens []int32
	learn  []byte
	ends   []int64 // of documents
	vocab  int
}

// openShard opens a file of tokens and checks that its arrays are consistent. It reads no tokens.
func openShard(path string) (_ *shard, err error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	s := &shard{File: f}
	defer func() {
		if err != nil {
			f.Close()
			err = fmt.Errorf("%s: %w", path, err)
		}
	}()
	if got := f.Metadata["format"]; got != format {
		return nil, fmt.Errorf("format %s, want %q, as Build writes it", quoted.Text(got), format)
	}
	if s.vocab, err = strconv.Atoi(f.Metadata["vocab"]); err != nil || s.vocab < 1 {
		return nil, fmt.Errorf("a vocabulary of %s tokens, want a number from 1 on", quoted.Text(f.Metadata["vocab"]))
	}
	get := func(name string, d graph.DType) (array.Array, error) {
		for _, t := range f.Tensors {
			if t.Name == name && t.Type.DType == d && t.Type.Rank() == 1 {
				return t.Array()
			}
		}
		return array.Array{}, fmt.Errorf("no tensor %s of element type %s and one dimension", name, d)
	}
	tokens, err := get("tokens", graph.I32)
	if err != nil {
		return nil, err
	}
	learn, err := get("learn", graph.U8)
	if err != nil {
		return nil, err
	}
	ends, err := get("ends", graph.I64)
	if err != nil {
		return nil, err
	}
	s.tokens, s.learn, s.ends = array.Data[int32](tokens), learn.Bytes(), array.Data[int64](ends)
	if len(s.learn) != len(s.tokens) || len(s.ends) == 0 || s.ends[len(s.ends)-1] != int64(len(s.tokens)) || s.ends[0] < 1 {
		return nil, fmt.Errorf("%d tokens, %d marks and %d documents do not belong together", len(s.tokens), len(s.learn), len(s.ends))
	}
	for i, end := range s.ends[1:] {
		if end <= s.ends[i] {
			return nil, fmt.Errorf("document %d ends at token %d, and the one before it at token %d", i+1, end, s.ends[i])
		}
	}
	return s, nil
}
