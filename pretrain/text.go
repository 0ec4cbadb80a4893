package pretrain

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/gomoe/gomoe/data"
	"github.com/gomoe/gomoe/data/text"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/tokenizer"
	"github.com/gomoe/gomoe/train"
	"github.com/gomoe/gomoe/train/lm"
)

// source provides the batches of a run.
type source struct {
	tok  *tokenizer.Tokenizer
	file []byte // tokenizer.json of the byte tokenizer; nil for other tokenizers
	step func(step int) (train.Parts, error)
	// held measures the held-out loss; nil if there is no held-out text.
	held  func(context.Context, *train.Evaluation) (float64, error)
	about string // description for the user
	hash  string // identifies the text
	unit  string // name of a token
	// entropy is the entropy of single tokens, in nats; 0 if unknown.
	entropy float64
	close   func() error
}

// tokenizer opens the tokenizer.
func (s *Settings) tokenizer() (*tokenizer.Tokenizer, []byte, error) {
	if s.Data.Tokenizer != "" {
		t, err := tokenizer.Open(s.Data.Tokenizer)
		if err != nil {
			err = fmt.Errorf("pretrain: %s: data.tokenizer: %w", s.Path, err)
		}
		return t, nil, err
	}
	file, err := tokenizer.Bytes()
	if err != nil {
		return nil, nil, err
	}
	t, err := tokenizer.Parse(file)
	return t, file, err
}

// source opens the text. folder is the folder for files of tokens.
func (s *Settings) source(ctx context.Context, folder string, tok *tokenizer.Tokenizer, file []byte) (*source, error) {
	if file != nil {
		return s.bytes(ctx, tok, file)
	}
	return s.tokens(ctx, folder, tok)
}

// bytes reads texts, using bytes as tokens.
func (s *Settings) bytes(ctx context.Context, tok *tokenizer.Tokenizer, file []byte) (*source, error) {
	for _, name := range s.Data.Files {
		if strings.Contains(name, ",") {
			return nil, fmt.Errorf("pretrain: %s: data.files has %s, want names without commas", s.Path, quoted.Text(name))
		}
	}
	c, err := text.Load(ctx, text.Options{Data: strings.Join(s.Data.Files, ","), Setting: "data.files", Limit: int64(s.Data.Limit) << 20, Seed: s.Seed})
	if err != nil {
		return nil, fmt.Errorf("pretrain: %s: %w", s.Path, err)
	}
	b, err := lm.NewBytes(c, s.Batch, s.Length, s.EvalEvery > 0)
	if err != nil {
		return nil, fmt.Errorf("pretrain: %s: length is %d: %w", s.Path, s.Length, err)
	}
	r := &source{tok: tok, file: file, step: b.Parts, about: c.String(), hash: c.Hash(), unit: "byte", entropy: b.Entropy, close: func() error { return nil }}
	if b.Held != nil {
		r.held = func(ctx context.Context, e *train.Evaluation) (float64, error) { return e.Scalar(ctx, "loss", b.Held) }
	}
	return r, nil
}

// tokens tokenizes files.
func (s *Settings) tokens(ctx context.Context, folder string, tok *tokenizer.Tokenizer) (r *source, err error) {
	r = &source{tok: tok, unit: "token"}
	var sets []*data.Set
	r.close = func() (err error) {
		for _, set := range sets {
			err = errors.Join(err, set.Close())
		}
		return err
	}
	open := func(name, setting string, files []string, o data.Order) (*data.Set, *data.Batches, error) {
		path := filepath.Join(folder, name)
		if _, err := data.Build(ctx, path, files, data.Options{Tokenizer: tok, Date: s.Data.Date}); err != nil {
			return nil, nil, fmt.Errorf("pretrain: %s: %s: %w", s.Path, setting, err)
		}
		set, err := data.Open(path)
		if err != nil {
			return nil, nil, fmt.Errorf("pretrain: %w", err)
		}
		sets = append(sets, set)
		b, err := set.Batches(o)
		if err != nil {
			err = fmt.Errorf("pretrain: %s: %s, and length is %d: %w", s.Path, setting, s.Length, err)
		}
		return set, b, err
	}
	set, b, err := open("train.tokens", "data.files", s.Data.Files, data.Order{Rows: s.Batch, Length: s.Length, Seed: s.Seed})
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	if some, err := b.Predicts(); err != nil || !some {
		if err == nil {
			err = fmt.Errorf("pretrain: %s: data.files: there is no token to learn: texts have one token, completions are empty, or the assistant says nothing", s.Path)
		}
		return nil, errors.Join(err, r.close())
	}
	r.about = fmt.Sprintf("%d tokens of %d documents in %s", set.Tokens(), set.Documents(), strings.Join(s.Data.Files, ", "))
	facts := map[string]any{"tokens": set.Tokens(), "documents": set.Documents(), "files": strings.Join(s.Data.Files, ", "), "vocabulary": set.Vocab(), "date": cmp.Or(s.Data.Date, data.DefaultDate()).Format(time.DateOnly)}
	text, _ := json.Marshal(facts) // cannot fail: texts and integers
	r.hash = string(text)
	r.step = func(step int) (train.Parts, error) {
		return lm.Parts(b.Step(int64(step-1)), s.Batch, lm.Inputs()...), nil
	}
	if s.EvalEvery > 0 && len(s.Data.HeldOut) > 0 {
		_, held, err := open("held_out.tokens", "data.held_out", s.Data.HeldOut, data.Order{Rows: s.Batch, Length: s.Length}) // shuffled, so that a few batches are representative
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		r.held = lm.HeldOut(held, s.Batch, s.Data.HeldOutBatches, lm.Inputs()...)
	}
	return r, nil
}
