package rdma

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	queueLength = 32 // work requests of a queue pair in each direction, as in JACCL
	batch       = 16 // the most completions that one poll takes
)

// Endpoint is this rank's end of the connection with one peer. As in JACCL, it has a
// completion queue and a queue pair of its own at a device. It has one registered slab for
// each direction.
type Endpoint struct {
	lib      *Library
	Peer     int
	device   string
	Service  Service // the kind of the queue pair, RC or UC
	at       *adapter
	cq, qp   uintptr
	mrs      []uintptr // memory regions of the slabs
	gidIndex byte
	Address  destination

	poll, postSend, postRecv uintptr // functions of the context
	// The arguments of these functions. They are kept because a variadic call would allocate
	// them each time.
	pollArgs, sendArgs, recvArgs []uintptr

	SendSlab, RecvSlab *Region // memory of messages outside the caller's memory
	sendKey, recvKey   uint32
	requests, attrs    *Region // structs for the library
	Sending, Receiving Lane

	sentBytes, receivedBytes int   // bytes of data flows since Drive last reported them
	StagedOut, StagedIn      int64 // bytes of data flows that were copied through the slabs
}

// The offsets in bytes of the structs in requests.
const (
	atSGE  = 0
	atSend = 64
	atRecv = 256
	atBad  = 384
	atWC   = 512
)

// NewEndpoint opens the device that faces peer, unless it is open, creates a queue pair
// and brings it to the state INIT. service is the kind of queue pair; AnyService means RC
// if the device has it, and otherwise UC. After an error nothing is left over except the
// device, which stays in open.
func NewEndpoint(lib *Library, open Adapters, peer int, device string, service Service) (e *Endpoint, err error) {
	e = &Endpoint{lib: lib, Peer: peer, device: device}
	defer func() {
		if err != nil {
			e.Close()
			e, err = nil, fmt.Errorf("device %s, which faces rank %d: %w", device, peer, err)
		}
	}()
	for _, m := range []struct {
		to **Region
		n  int
	}{{&e.requests, atWC + batch*wcSize}, {&e.attrs, attrSize}, {&e.SendSlab, slabSize}, {&e.RecvSlab, slabSize}} {
		if *m.to, err = NewRegion(m.n); err != nil {
			return e, fmt.Errorf("memory for its buffers: %w", err)
		}
	}
	if e.at, err = open.open(lib, device); err != nil {
		return e, err
	}
	e.poll, e.postSend, e.postRecv = ptrAt(e.at.ctx, opsPollCQ), ptrAt(e.at.ctx, opsPostSend), ptrAt(e.at.ctx, opsPostRecv)
	if e.poll == 0 || e.postSend == 0 || e.postRecv == 0 {
		return e, fmt.Errorf("%s has no functions to post and poll in its contexts, want the verbs' ABI", lib.name)
	}
	if e.cq, err = lib.create("ibv_create_cq", lib.createCQ, e.at.ctx, 2*queueLength, 0, 0, 0); err != nil {
		return e, err
	}
	if err := e.createQP(service); err != nil {
		return e, err
	}
	r := e.requests.addr
	e.pollArgs = []uintptr{e.cq, batch, r + atWC}
	e.sendArgs, e.recvArgs = []uintptr{e.qp, r + atSend, r + atBad}, []uintptr{e.qp, r + atRecv, r + atBad}
	for _, m := range []struct {
		slab *Region
		key  *uint32
	}{{e.SendSlab, &e.sendKey}, {e.RecvSlab, &e.recvKey}} {
		mr, key, err := e.at.register(m.slab.addr, uintptr(len(m.slab.B)))
		if err != nil {
			return e, err
		}
		e.mrs, *m.key = append(e.mrs, mr), key
	}
	if err := e.findAddress(); err != nil {
		return e, err
	}
	return e, e.init()
}

// createQP creates the queue pair. Ordinary adapters have RC and UC; on UC they lose
// messages for which no buffer is posted yet. Thunderbolt has only UC and loses nothing.
func (e *Endpoint) createQP(service Service) error {
	kinds := []Service{service}
	if service == AnyService {
		kinds = []Service{RC, UC}
	}
	var err error
	for _, k := range kinds {
		a := e.clearAttrs()
		*word64(a, initSendCQ), *word64(a, initRecvCQ) = uint64(e.cq), uint64(e.cq)
		*word32(a, initSendWR), *word32(a, initRecvWR) = queueLength, queueLength
		*word32(a, initSendSGE), *word32(a, initRecvSGE) = 1, 1
		*word32(a, initType) = typeRC
		if k == UC {
			*word32(a, initType) = typeUC
		}
		if e.qp, err = e.lib.create("ibv_create_qp", e.lib.createQP, e.at.pd, a); err == nil {
			e.Service = k
			e.Address.qpn = *word32(e.qp, qpNum)
			return nil
		}
		if r := err.(*refusal); !r.unsupported() {
			return err
		}
	}
	return err
}

// findAddress sets the endpoint's address. It searches the whole table of the port's GIDs
// for one that stands for an IPv4 address.
func (e *Endpoint) findAddress() error {
	a := e.clearAttrs()
	if err := e.lib.do("ibv_query_port", e.lib.queryPort, e.at.ctx, 1, a); err != nil {
		return err
	}
	length := int(int32(*word32(a, portGIDs)))
	e.Address.lid, e.Address.psn = uint32(*word16(a, portLID)), firstPSN
	for i := range min(length, 256) {
		if e.lib.do("ibv_query_gid", e.lib.queryGID, e.at.ctx, 1, uintptr(i), a) != nil {
			continue // an empty place in the table
		}
		if gid := [16]byte(bytesAt(a, 16)); isIPv4(gid) {
			e.Address.gid, e.gidIndex = gid, byte(i)
			return nil
		}
	}
	return errors.New("its port has no GID of an IPv4 address; give the interface one, as by ifconfig en5 inet 169.254.0.1 netmask 255.255.0.0 alias")
}

func (e *Endpoint) clearAttrs() uintptr {
	clear(e.attrs.B)
	return e.attrs.addr
}

func (e *Endpoint) modify(mask uintptr) error {
	return e.lib.do("ibv_modify_qp", e.lib.modifyQP, e.qp, e.attrs.addr, mask)
}

func (e *Endpoint) init() error {
	a := e.clearAttrs()
	*word32(a, attrState), *word32(a, attrAccess), *byteAt(a, attrPort) = stateInit, access, 1
	if err := e.modify(maskState | maskPkey | maskPort | maskAccess); err != nil {
		return fmt.Errorf("queue pair to INIT: %w", err)
	}
	return nil
}

// Connect connects the queue pair with the peer's: it brings it to the state RTR, and then
// to RTS.
func (e *Endpoint) Connect(to destination) error {
	if !isIPv4(to.gid) {
		return fmt.Errorf("device %s: rank %d has sent the GID %x, want one of an IPv4 address", e.device, e.Peer, to.gid)
	}
	a := e.clearAttrs()
	*word32(a, attrState), *word32(a, attrPathMTU) = stateRTR, mtu1024
	*word32(a, attrRqPSN), *word32(a, attrDestQP), *word16(a, attrDLID) = to.psn, to.qpn, uint16(to.lid)
	copy(bytesAt(a+attrDGID, 16), to.gid[:])
	*byteAt(a, attrSGIDIndex), *byteAt(a, attrHopLimit), *byteAt(a, attrIsGlobal), *byteAt(a, attrAHPort) = e.gidIndex, 1, 1, 1
	mask := uintptr(maskState | maskAV | maskPathMTU | maskDestQP | maskRqPSN)
	if e.Service == RC {
		*byteAt(a, attrMinRNRTimer) = 1 // a message without a posted buffer is retried after 10 us
		mask |= maskMaxDestRdAtomic | maskMinRNRTimer
	}
	if err := e.modify(mask); err != nil {
		return fmt.Errorf("device %s, which faces rank %d: queue pair to RTR: %w", e.device, e.Peer, err)
	}
	a = e.clearAttrs()
	*word32(a, attrState), *word32(a, attrSqPSN) = stateRTS, firstPSN
	mask = maskState | maskSqPSN
	if e.Service == RC {
		// Retransmit a lost message after 4.096 us * 2^14 = 67 ms, at most seven times. A
		// message without a posted buffer is retried without limit, because Work has the
		// deadline.
		*byteAt(a, attrTimeout), *byteAt(a, attrRetries), *byteAt(a, attrRNRRetry) = 14, 7, 7
		mask |= maskTimeout | maskRetries | maskRNRRetry | maskMaxRdAtomic
	}
	if err := e.modify(mask); err != nil {
		return fmt.Errorf("device %s, which faces rank %d: queue pair to RTS: %w", e.device, e.Peer, err)
	}
	return nil
}

// Close releases the endpoint's objects, but not the device. It does not bring the queue
// pair to the error state first, because Apple's driver does not survive that well.
func (e *Endpoint) Close() {
	if e.qp != 0 {
		invoke(e.lib.destroyQP, e.qp)
	}
	for _, mr := range e.mrs {
		invoke(e.lib.deregMR, mr)
	}
	if e.cq != 0 {
		invoke(e.lib.destroyCQ, e.cq)
	}
	e.qp, e.mrs, e.cq = 0, nil, 0
	for _, r := range []*Region{e.SendSlab, e.RecvSlab, e.requests, e.attrs} {
		r.Close()
	}
}

// destination is the address of a queue pair. Ranks tell each other the destinations of
// their queue pairs.
type destination struct {
	lid, qpn, psn uint32
	gid           [16]byte
}

// DestinationSize is the size in bytes of JACCL's struct Destination, which Append writes:
// three int32, four bytes of padding, and the GID.
const DestinationSize = 32

func (d destination) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, d.lid)
	b = binary.LittleEndian.AppendUint32(b, d.qpn)
	b = binary.LittleEndian.AppendUint32(b, d.psn)
	b = append(b, 0, 0, 0, 0)
	return append(b, d.gid[:]...)
}

// ParseDestination returns the destination in the first DestinationSize bytes of b.
func ParseDestination(b []byte) destination {
	return destination{
		lid: binary.LittleEndian.Uint32(b),
		qpn: binary.LittleEndian.Uint32(b[4:]),
		psn: binary.LittleEndian.Uint32(b[8:]),
		gid: [16]byte(b[16:32]),
	}
}

// NoDestination returns the destination that a rank sends in its own place, without a
// queue pair.
func NoDestination() destination { return destination{lid: 1<<32 - 1} }

// isIPv4 reports whether a GID is an IPv4 address: ::ffff:a.b.c.d.
func isIPv4(gid [16]byte) bool {
	return [12]byte(gid[:12]) == [12]byte{10: 0xff, 11: 0xff}
}
