package rdma

import (
	"fmt"
	"syscall"
)

// The verbs' ABI, which rdma-core's libibverbs.so.1 and Apple's librdma.dylib share:
// offsets in bytes into their structs on 64-bit machines.
const (
	ctxOps      = 8 // struct ibv_context: its table of functions
	opsPollCQ   = ctxOps + 88
	opsPostSend = ctxOps + 200
	opsPostRecv = ctxOps + 208

	qpNum  = 52 // struct ibv_qp
	mrLkey = 36 // struct ibv_mr

	initSendCQ  = 8 // struct ibv_qp_init_attr
	initRecvCQ  = 16
	initSendWR  = 32
	initRecvWR  = 36
	initSendSGE = 40
	initRecvSGE = 44
	initType    = 52

	attrState       = 0 // struct ibv_qp_attr
	attrPathMTU     = 8
	attrRqPSN       = 20
	attrSqPSN       = 24
	attrDestQP      = 28
	attrAccess      = 32
	attrDGID        = 56
	attrSGIDIndex   = 76
	attrHopLimit    = 77
	attrDLID        = 80
	attrIsGlobal    = 85
	attrAHPort      = 86
	attrMinRNRTimer = 128
	attrPort        = 129
	attrTimeout     = 130
	attrRetries     = 131
	attrRNRRetry    = 132
	attrSize        = 144

	deviceMaxQP = 108 // struct ibv_device_attr
	deviceMaxMR = 136
	deviceSize  = 256 // the struct has 232 bytes; the rest is spare

	portGIDs = 12 // struct ibv_port_attr
	portLID  = 34

	sgeAddr   = 0 // struct ibv_sge
	sgeLength = 8
	sgeLkey   = 12

	wrID     = 0 // struct ibv_send_wr and the first fields of struct ibv_recv_wr
	wrNext   = 8
	wrSG     = 16
	wrNSGE   = 24
	wrOpcode = 28
	wrFlags  = 32

	wcID     = 0 // struct ibv_wc
	wcStatus = 8
	wcLength = 20
	wcSize   = 48
)

// Values of the ABI.
const (
	typeRC, typeUC = 2, 3

	stateInit, stateRTR, stateRTS = 1, 2, 3

	maskState           = 1 << 0
	maskAccess          = 1 << 3
	maskPkey            = 1 << 4
	maskPort            = 1 << 5
	maskAV              = 1 << 7
	maskPathMTU         = 1 << 8
	maskTimeout         = 1 << 9
	maskRetries         = 1 << 10
	maskRNRRetry        = 1 << 11
	maskRqPSN           = 1 << 12
	maskMaxRdAtomic     = 1 << 13
	maskMinRNRTimer     = 1 << 15
	maskSqPSN           = 1 << 16
	maskMaxDestRdAtomic = 1 << 17
	maskDestQP          = 1 << 20

	access       = 1 | 2 | 4 // local write, remote write and remote read; Apple's library refuses less
	mtu1024      = 3
	opcodeSend   = 2
	sendSignaled = 2
	firstPSN     = 7 // the packet sequence number from which JACCL starts at both ends
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

// statusText describes the status of a completion.
func statusText(status uint32) string {
	names := [...]string{
		"success", "local length error: the message does not fit its buffer", "local queue pair operation error", "local end-to-end context error",
		"local protection error: a buffer is not registered", "flushed: the queue pair is in the error state", "memory window bind error",
		"bad response", "local access error", "remote invalid request: the peer posted another size", "remote access error", "remote operation error",
		"retries exceeded: the peer does not answer", "receiver not ready: the peer posted no buffer", "local RDD violation", "remote invalid RD request",
		"remote aborted", "invalid end-to-end context number", "invalid end-to-end context state", "fatal error", "response timeout", "general error",
	}
	if int(status) < len(names) {
		return fmt.Sprintf("status %d, %s", status, names[status])
	}
	return fmt.Sprintf("status %d", status)
}
