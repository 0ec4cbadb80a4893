package ep

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMeasure(t *testing.T) {
	for _, c := range []struct {
		demand, counts []int32
		want           Load
		text           string
	}{
		{[]int32{4, 4}, []int32{4, 4},
			Load{Demand: 8, Kept: 8, Share: []float64{0.5, 0.5}, Imbalance: 1},
			"8 pairs to 2 experts, imbalance 1.00, hottest 0 with 50.0%"},
		{[]int32{0, 6, 0, 2}, []int32{0, 3, 0, 2},
			Load{Demand: 8, Kept: 5, Share: []float64{0, 0.75, 0, 0.25}, Hottest: 1, Dead: []int{0, 2}, Imbalance: 3},
			"8 pairs to 4 experts, imbalance 3.00, hottest 1 with 75.0%, 2 dead, 3 dropped (37.5%)"},
		{[]int32{0, 0}, []int32{0, 0},
			Load{Share: []float64{0, 0}, Dead: []int{0, 1}},
			"0 pairs to 2 experts"},
		{nil, nil, Load{Share: []float64{}}, "0 pairs to 0 experts"},
	} {
		got := Measure(c.demand, c.counts)
		require.Equal(t, c.want, got)
		require.Equal(t, c.text, got.String())
		require.Equal(t, c.want.Demand-c.want.Kept, got.Dropped())
	}
}
