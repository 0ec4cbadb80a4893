package main

import (
	"bytes"
	"errors"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/metal/measure"
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

// Wrong results make the command fail, and are named.
func TestBenchKernelsVerdict(t *testing.T) {
	right, wrong := measure.Row{Kernel: "rope", Share: 1}, measure.Row{Kernel: "softmax", Share: 1.5}
	if err := verdict([]measure.Row{right, right}); err != nil {
		t.Error(err)
	}
	const want = "2 of 3 instructions farther from the host's results than the kernels' tolerance: softmax"
	if err := verdict([]measure.Row{wrong, right, wrong}); err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}
