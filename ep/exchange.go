package ep

import (
	"fmt"

	"github.com/gomoe/gomoe/internal/quoted"
)

// Exchange is the form in which experts' outputs return to the rank of their token.
type Exchange string

const (
	// Rows returns one row for each pair, and the token's rank adds these in the order of
	// the choices. The sum therefore has the same bits as on one rank.
	Rows Exchange = ""
	// Sum adds the rows that a rank has for a token before sending, in the order of the
	// choices, rounding the result once. Fewer bytes are exchanged, and a sum is close to
	// the sum on one rank.
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
