package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// asked asks the address that a run prints when the run has done two steps.
type asked struct {
	all string
	got string
	err error
}

func (a *asked) Write(b []byte) (int, error) {
	a.all += string(b)
	if _, rest, ok := strings.Cut(a.all, "metrics: "); ok && strings.Contains(string(b), "step 2/2") && a.err == nil {
		address, _, _ := strings.Cut(rest, "\n")
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		var answer *http.Response
		if answer, a.err = client.Get(address); a.err == nil {
			var text []byte
			text, a.err = io.ReadAll(answer.Body)
			answer.Body.Close()
			a.got = string(text)
		}
	}
	return len(b), nil
}

// With -metrics a run serves its steps; an address that cannot be had is an error.
func TestMetrics(t *testing.T) {
	args, _ := tiny(t, "-steps", "2", "-metrics", "127.0.0.1:0")
	out := &asked{}
	require.NoError(t, program().Run(context.Background(), context.Background(), args, out))
	require.NoError(t, out.err)
	for _, want := range []string{"gomoe_train_step 2\n", "gomoe_train_expert_load{expert=\"7\"} "} {
		require.Contains(t, out.got, want)
	}
	args, _ = tiny(t, "-metrics", "nowhere")
	_, err := execute(t, args...)
	require.ErrorContains(t, err, "metrics: listen tcp: address nowhere: missing port")
}
