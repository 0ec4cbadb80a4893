package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// gomoe doctor prints what the emulated GPU reads, and which devices there are, or why not;
// of the hosts of a job it does not.
func TestDoctorDevices(t *testing.T) {
	t.Setenv("GOMOE_CLANG", "no-such-clang")
	t.Setenv("GOMOE_CACHE", t.TempDir())
	var out, errs bytes.Buffer
	run(t.Context(), []string{"doctor"}, nil, &out, &errs)
	for _, want := range []string{"GOMOE_CLANG=no-such-clang  what compiles", "GOMOE_CACHE=", "\ndevice metal  ", "\ndevice metal-emulated  none: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s%s", want, out.String(), errs.String())
		}
	}
	if said := strings.Contains(out.String(), "no-such-clang)") || strings.Contains(out.String(), "-tags native") || strings.Contains(out.String(), "runs on linux"); !said {
		t.Errorf("the report does not say why there is no emulated GPU:\n%s", out.String())
	}
}

// A job of JACCL's ring, which every rank would refuse, is found beforehand, in the same
// words.
func TestDoctorRing(t *testing.T) {
	devices := filepath.Join(t.TempDir(), "devices.json")
	require.NoError(t, os.WriteFile(devices, []byte(`[[null,"rdma_en5"],["rdma_en5",null]]`), 0o600))
	t.Setenv("MLX_RANK", "0")
	t.Setenv("MLX_IBV_DEVICES", devices)
	t.Setenv("MLX_JACCL_RING", "1")
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"doctor"}, nil, &out, &errs)
	const want = "MLX_JACCL_RING is set, which asks for JACCL's ring: only its mesh is spoken here; connect all ranks with each other and unset it"
	if code == 0 || !strings.Contains(out.String(), want) {
		t.Errorf("doctor exits with %d and says\n%s%s, want an error with %q", code, out.String(), errs.String(), want)
	}
}
