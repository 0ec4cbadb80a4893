package rdma

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
