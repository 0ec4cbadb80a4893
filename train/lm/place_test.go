package lm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/data"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/train/lm"
)

// A batch is cut evenly also if it has as many rows as a mesh's ranges have experts.
func TestPlacesOfBatch(t *testing.T) {
	for text, want := range map[string]string{"dp=2,ep=2": "dp.ep", "dp=2,ep=8:5/3": "dp.ep:even", "ep=8:5/3,tp=2": "ep:even.dp", "": "dp.ep"} {
		m, err := sharding.ParseMesh(text)
		require.NoError(t, err)
		require.Equal(t, want, lm.Places(m, lm.Inputs()...)[data.Tokens].String(), text)
	}
}
