package ep

import (
	"fmt"

	"github.com/gomoe/gomoe/internal/quoted"
)

// Exchange says what of a token's rows travels between the ranks of its experts and the
// token's home.
type Exchange string

const (
	// Rows returns one row for each pair, and the token's home adds these in the order of
	// the choices. A sum therefore has the bits that one rank computes.
	Rows Exchange = ""
	// Sum adds the rows that a rank has for a token before they travel, in the order of the
	// choices, and rounds the result once. Fewer bytes travel, and a sum is close to that
	// of one rank.
	Sum Exchange = "sum"
)

// Validate returns an error for a value that is neither Rows nor Sum.
func (x Exchange) Validate() error {
	if x != Rows && x != Sum {
		return fmt.Errorf("ep: exchange %s, want %q, or nothing for one row per choice", quoted.Text(string(x)), string(Sum))
	}
	return nil
}

func (x Exchange) String() string {
	if x == Rows {
		return "rows"
	}
	return string(x)
}
