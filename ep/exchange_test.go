package ep

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExchange(t *testing.T) {
	var unset Exchange
	require.Equal(t, Rows, unset)
	require.NoError(t, Rows.Validate())
	require.NoError(t, Sum.Validate())
	require.Equal(t, "rows sum", fmt.Sprint(Rows, " ", Sum))
	require.EqualError(t, Exchange("add").Validate(), `ep: exchange "add", want "sum", or nothing for one row per choice`)
}
