package main

import (
	"errors"
	"flag"

	"github.com/gomoe/gomoe/generate"
)

// choosing holds the flags for sampling tokens and ending a text.
type choosing struct {
	s    generate.Sampling
	stop []string
}

// flags adds the flags.
func (c *choosing) flags(fs *flag.FlagSet) {
	fs.Float64Var(&c.s.Temperature, "temperature", 0, "divides the logits; 0 takes the most likely token")
	fs.IntVar(&c.s.TopK, "top-k", 0, "sample from the `k` most likely tokens; 0 means all")
	fs.Float64Var(&c.s.TopP, "top-p", 0, "choose among the most likely tokens that have this `probability` together; 0 is all")
	fs.Float64Var(&c.s.MinP, "min-p", 0, "choose among tokens with this `part` of the most likely one's probability; 0 is all")
	fs.Float64Var(&c.s.Repetition, "repetition", 0, "`factor` that makes tokens less likely that are there already, such as 1.1; 0 is none")
	fs.Float64Var(&c.s.Presence, "presence", 0, "`amount` subtracted from the logits of tokens already in the text")
	fs.Float64Var(&c.s.Frequency, "frequency", 0, "`amount` subtracted from a token's logit per occurrence in the text")
	fs.Uint64Var(&c.s.Seed, "seed", 1, "of the choice among tokens; it gives the same text on every mesh without tp")
	fs.Func("stop", "`text` at which to stop, which is not written; may be given several times", func(s string) error {
		if s == "" {
			return errors.New("want at least one character")
		}
		c.stop = append(c.stop, s)
		return nil
	})
}

// check returns an error for invalid combinations of flags.
func (c *choosing) check() error {
	if err := c.s.Check(); err != nil {
		return &usageError{err}
	}
	if c.s.Temperature == 0 && (c.s.TopK > 0 || c.s.TopP > 0 || c.s.MinP > 0) {
		return usagef("-top-k, -top-p and -min-p choose at random, which wants a -temperature above 0, such as 0.7")
	}
	return nil
}
