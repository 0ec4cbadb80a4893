package rdma

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

// The numbers are macOS's where the systems differ: the remedies are for Macs, mostly,
// and this test runs anywhere.
func TestRemedies(t *testing.T) {
	for _, c := range []struct {
		verb  string
		errno syscall.Errno
		want  string
	}{
		{"ibv_get_device_list", 0, "failed without a reason; no RDMA devices; on a Mac, run rdma_ctl enable"},
		{"ibv_get_device_list", 38, "(errno 38); no RDMA devices"},
		{"ibv_open_device", 13, "(errno 13); no permission for the device"},
		{"ibv_alloc_pd", 0, "the port may be down"},
		{"ibv_create_qp", 16, "of which Thunderbolt's have 10"},
		{"ibv_create_qp", 102, "(errno 102); the device has no such queue pairs"},
		{"ibv_reg_mr", 12, "of which Thunderbolt's have about 100"},
		{"ibv_modify_qp", 22, "a Thunderbolt bridge is still up; give the interface an IPv4 address and run ifconfig bridge0 down"},
		{"ibv_modify_qp", 60, "(errno 60); the peer's GID is not on this link; check the file of devices against the cables"},
		{"ibv_modify_qp", 16, "restart the machine if a job crashed before"},
	} {
		err := error(&refusal{c.verb, c.errno})
		if !strings.HasPrefix(err.Error(), c.verb+": ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q, want %q", err, c.want)
		}
		if !errors.Is(err, c.errno) {
			t.Errorf("%v does not wrap errno %d", err, int(c.errno))
		}
	}
	if s := (&refusal{"ibv_post_send", 5}).Error(); strings.Contains(s, ";") {
		t.Errorf("%q has a remedy, though none is known", s)
	}
}

func TestStatusText(t *testing.T) {
	for status, want := range map[uint32]string{5: "status 5, flushed", 12: "status 12, retries exceeded", 21: "status 21, general error", 22: "status 22", 1 << 31: "status 2147483648"} {
		if got := statusText(status); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
