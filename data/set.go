package data

import (
	"errors"
	"fmt"
	"slices"
)

// Set is a set of mapped token files. Its methods except Close are safe for concurrent use.
type Set struct {
	shards []*shard
	begins []int64 // number of the first token of each shard, followed by the total
	first  []int64 // number of the first document of each shard, followed by the total
	vocab  int
}

// Open opens files written by Build. Their tokenizers must have the same size. The caller must call Close when no
// batch is in use any more.
func Open(paths ...string) (_ *Set, err error) {
	s := &Set{begins: []int64{0}, first: []int64{0}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("data: %w", err), s.Close())
		}
	}()
	if len(paths) == 0 {
		return nil, errors.New("no files of tokens")
	}
	for _, p := range paths {
		x, err := openShard(p)
		if err != nil {
			return nil, err
		}
		s.begins, s.first = append(s.begins, s.Tokens()+int64(len(x.tokens))), append(s.first, s.Documents()+int64(len(x.ends)))
		s.shards = append(s.shards, x)
		if s.vocab == 0 {
			s.vocab = x.vocab
		}
		if x.vocab != s.vocab {
			return nil, fmt.Errorf("%s is of a vocabulary of %d tokens, and %s of %d", p, x.vocab, paths[0], s.vocab)
		}
	}
	return s, nil
}

// Close closes the files.
func (s *Set) Close() error {
	var errs []error
	for _, x := range s.shards {
		errs = append(errs, x.Close())
	}
	s.shards = nil
	return errors.Join(errs...)
}

// Tokens returns the number of tokens.
func (s *Set) Tokens() int64 { return s.begins[len(s.begins)-1] }

// Vocab returns the size of the tokenizer's vocabulary.
func (s *Set) Vocab() int { return s.vocab }

// Documents returns the number of documents.
func (s *Set) Documents() int64 { return s.first[len(s.first)-1] }

// at returns the shard containing a token, and the token's index in it.
func (s *Set) at(token int64) (shard, at int) {
	shard, found := slices.BinarySearch(s.begins, token)
	if !found {
		shard--
	}
	return shard, int(token - s.begins[shard])
}

// document returns the number of the document containing a token.
func (s *Set) document(token int64) int64 {
	i, at := s.at(token)
	n, _, _ := s.shards[i].document(at)
	return s.first[i] + int64(n)
}

// document returns the number, start and end of the document containing a token of the shard.
func (x *shard) document(token int) (n, begin, end int) {
	n, found := slices.BinarySearch(x.ends, int64(token))
	if found {
		n++
	}
	if n > 0 {
		begin = int(x.ends[n-1])
	}
	return n, begin, int(x.ends[n])
}
