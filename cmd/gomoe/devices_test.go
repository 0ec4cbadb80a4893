package main

import (
	"bytes"
	"strings"
	"testing"
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
