package rdma

import (
	"fmt"
	"syscall"
)

// refusal is a verb that failed.
type refusal struct {
	verb  string
	errno syscall.Errno
}

func (r *refusal) Error() string {
	s := fmt.Sprintf("%s: %v (errno %d)", r.verb, r.errno, int(r.errno))
	if r.errno == 0 {
		s = r.verb + ": failed without a reason"
	}
	if hint := r.remedy(); hint != "" {
		s += "; " + hint
	}
	return s
}

func (r *refusal) Unwrap() error { return r.errno }

// unsupported reports whether the verb failed because the device does not support it.
// macOS and Linux number the errors differently, and a stand-in may play either.
func (r *refusal) unsupported() bool {
	return r.errno == 102 || r.errno == 95 || r.errno == 22 || r.errno == 38
}

// remedy explains a verb's known failure with this error on Thunderbolt, with the remedy.
func (r *refusal) remedy() string {
	switch {
	case r.verb == "ibv_get_device_list" && (r.errno == 0 || r.errno == 38):
		return "no RDMA devices; on a Mac, run rdma_ctl enable in recovery mode, on Linux, load the adapter's modules and ib_uverbs"
	case r.errno == 1 || r.errno == 13:
		return "no permission for the device; on Linux, look at /dev/infiniband and at ulimit -l"
	case r.verb == "ibv_alloc_pd":
		return "the port may be down; look at its cable and at ibv_devices"
	case r.verb == "ibv_create_qp" && r.errno == 16:
		return "all queue pairs of the device are taken, of which Thunderbolt's have 10; end other jobs, or restart after a crash"
	case r.verb == "ibv_create_qp" && r.unsupported():
		return "the device has no such queue pairs; Thunderbolt's are UC, those of ordinary adapters RC"
	case r.verb == "ibv_reg_mr" && r.errno == 12:
		return "all memory regions of the device are taken, of which Thunderbolt's have about 100, or ulimit -l is too low"
	case r.verb == "ibv_modify_qp" && r.errno == 22:
		return "the port has no usable GID, or a Thunderbolt bridge is still up; give the interface an IPv4 address and run ifconfig bridge0 down"
	case r.verb == "ibv_modify_qp" && (r.errno == 60 || r.errno == 110):
		return "the peer's GID is not on this link; check the file of devices against the cables"
	case r.errno == 16:
		return "the device is busy; restart the machine if a job crashed before"
	}
	return ""
}
