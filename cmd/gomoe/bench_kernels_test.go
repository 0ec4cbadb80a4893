package main

import (
	"bytes"
	"errors"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/gomoe/gomoe"
)

// Without a GPU the command says so, and what there is instead.
func TestBenchKernelsWithout(t *testing.T) {
	if goruntime.GOOS == "darwin" {
		t.Skip("macOS has Metal")
	}
	cases := map[string]string{"metal": "no GPU on " + goruntime.GOOS + "/" + goruntime.GOARCH}
	if _, err := gomoe.OpenDevice(t.Context(), "metal-emulated"); errors.Is(err, errors.ErrUnsupported) {
		cases["metal-emulated"] = "-tags native"
	}
	for device, want := range cases {
		var out, errs bytes.Buffer
		status := run(t.Context(), []string{"bench", "kernels", "-small", "-device", device}, nil, &out, &errs)
		if status != 1 || out.String() != "" || !strings.Contains(errs.String(), want) || !strings.Contains(errs.String(), "metal-emulated") {
			t.Errorf("-device %s: status %d, %q, %q, want an error with %q", device, status, out.String(), errs.String(), want)
		}
	}
}
