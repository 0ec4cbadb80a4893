package ep

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		n, parts int
		text     string
	}{{6, 4, "0-1/2-3/4/5"}, {3, 4, "0/1/2/none"}, {8, 2, "0-3/4-7"}, {1, 1, "0"}, {128, 3, "0-42/43-85/86-127"}} {
		s := EqualSplit(c.n, c.parts)
		require.NoError(t, s.Validate())
		require.Equal(t, c.text, s.String())
		again, err := ParseSplit(c.text)
		require.NoError(t, err)
		require.Equal(t, s, again)
		require.Equal(t, (c.n+c.parts-1)/c.parts, s.Largest())
		seen := 0
		for m := range s.Parts() {
			lo, hi := s.Part(m)
			for x := lo; x < hi; x++ {
				require.Equal(t, m, s.Owner(x), "owner of %d in %s", x, s)
				seen++
			}
		}
		require.Equal(t, c.n, seen)
	}
	s, err := ParseSplit("none/0-95/none/96-127")
	require.NoError(t, err)
	require.Equal(t, Split{0, 0, 96, 96, 128}, s)
	for x, m := range map[int]int{0: 1, 95: 1, 96: 3, 127: 3} {
		require.Equal(t, m, s.Owner(x))
	}
}

func TestParseSplitErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                      `ep: split "": "" is no range, want first-last such as 0-95, one number, or none`,
		"0-3/x":                 `ep: split "0-3/x": "x" is no range, want first-last such as 0-95, one number, or none`,
		"0-3/7-4":               `ep: split "0-3/7-4": "7-4" is no range, want first-last such as 0-95, one number, or none`,
		"0-3/5-7":               `ep: split "0-3/5-7": "5-7" does not begin at 4, where the part before ends`,
		"0-3/3-7":               `ep: split "0-3/3-7": "3-7" does not begin at 4, where the part before ends`,
		"1-3":                   `ep: split "1-3": "1-3" does not begin at 0, where the part before ends`,
		"none/none":             `ep: split "none/none" has nothing in any part`,
		"0-9223372036854775807": `ep: split "0-9223372036854775807": "0-9223372036854775807" ends behind 2147483646`,
	} {
		_, err := ParseSplit(text)
		require.EqualError(t, err, want)
	}
}

// Parts are in proportion to shares, and no further from it than by one.
func TestSplitByShares(t *testing.T) {
	for _, c := range []struct {
		n      int
		shares []float64
		text   string
	}{
		{128, []float64{3, 1}, "0-95/96-127"},
		{6, []float64{1, 1, 1, 1}, "0-1/2-3/4/5"},
		{10, []float64{0, 1, 2}, "none/0-2/3-9"},
		{3, []float64{0.3, 0.3, 0.3}, "0/1/2"},
		{4, []float64{1e300, 1e300}, "0-1/2-3"},
		{7, []float64{64, 24, 24}, "0-3/4-5/6"},
	} {
		s, err := SplitByShares(c.n, c.shares)
		require.NoError(t, err)
		require.NoError(t, s.Validate())
		require.Equal(t, c.text, s.String(), "%d by %v", c.n, c.shares)
	}
	for n := range 200 {
		shares := []float64{float64(n*7%13) / 3, 0.1, float64(n % 5), 1.0 / 3}
		s, err := SplitByShares(n, shares)
		require.NoError(t, err)
		require.Equal(t, n, s.Len())
		sum := shares[0] + shares[1] + shares[2] + shares[3]
		for i, x := range shares {
			require.InDelta(t, float64(n)*x/sum, s.Size(i), 1)
			if x == 0 {
				require.Zero(t, s.Size(i))
			}
		}
	}
	for _, shares := range [][]float64{nil, {0, 0}, {1, -1}, {1, inf()}, {inf() - inf(), 1}, {1e308, 1e308}} {
		_, err := SplitByShares(4, shares)
		require.Error(t, err, "%v", shares)
	}
}

// The number of things and the shares are text, too.
func TestParseShares(t *testing.T) {
	for text, want := range map[string]string{
		"128:3/1": "0-95/96-127", " 7 : 64 / 24 / 24 ": "0-3/4-5/6", "10:0/1.5/3": "none/0-2/3-9", "3:1": "0-2",
	} {
		s, err := ParseSplit(text)
		require.NoError(t, err, text)
		require.Equal(t, want, s.String())
	}
	for text, want := range map[string]string{
		":1/2":         `ep: split ":1/2": "" is no number of things from 1 to 2147483647, want it before the shares, such as 128:64/24`,
		"0:1/2":        `ep: split "0:1/2": "0" is no number of things from 1 to 2147483647, want it before the shares, such as 128:64/24`,
		"2147483648:1": `ep: split "2147483648:1": "2147483648" is no number of things from 1 to 2147483647, want it before the shares, such as 128:64/24`,
		"8:1/x":        `ep: split "8:1/x": "x" is no share, want a number such as the gigabytes of a rank`,
		"8:":           `ep: split "8:": "" is no share, want a number such as the gigabytes of a rank`,
		"8:1/-1":       `ep: split "8:1/-1": ep: share 1 is -1, want a finite number of at least 0`,
		"8:NaN/1":      `ep: split "8:NaN/1": ep: share 0 is NaN, want a finite number of at least 0`,
		"8:0/0":        `ep: split "8:0/0": ep: 8 things by 2 shares with the sum 0, want at least 0 things and a finite sum above 0`,
	} {
		_, err := ParseSplit(text)
		require.EqualError(t, err, want)
	}
}

func inf() float64 { x := 1e308; return x * 10 }
