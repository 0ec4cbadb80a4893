package rdma

import "testing"

func TestFramesOnlyOn(t *testing.T) {
	for version, want := range map[string]bool{"26.2": true, "26.2.1": true, "26": true, "15.7.3": true, "26.3": false, "26.3.1": false, "26.10": false, "27.0": false, "": false, "beta": false} {
		if got := framesOnlyOn(version); got != want {
			t.Errorf("macOS %q: %v, want %v", version, got, want)
		}
	}
}
