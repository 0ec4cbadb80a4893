//go:build linux || darwin

package shm

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/strictjson"
	"github.com/gomoe/gomoe/internal/wait"
	"github.com/gomoe/gomoe/jaccl/link"
)

// most is the most address space in bytes for the segments of all ranks in a process:
// half of the smallest address space among the supported systems.
const most = 1 << 46

// transport implements link.Shared.
type transport struct {
	rank    int
	peers   []*peer // by rank; the entry of this rank has only a host
	own     *segment
	fd      int    // the descriptor of own, -1 when it is closed
	path    string // the file name of own, "" if it has none
	removed bool   // path has been removed
	table   *crc32.Table

	mu      sync.Mutex // held by an exchange
	pace    wait.Waiter
	broken  bool // an exchange has failed
	places  []byte
	headsOf [][]byte

	giving sync.Mutex // held while giving out memory; guards the following fields
	used   int64      // bytes of the arena that have been given out
	free   []region   // the regions of leases that have ended
	leases atomic.Pointer[[]lease]

	mapped  sync.RWMutex // while it is held, own and the peers' segments stay mapped
	closing atomic.Bool
}

// peer is another rank.
type peer struct {
	host    string
	segment *segment
	seq     uint64 // number of exchanges begun with the peer
	out     sender
	in      receiver
	// readByPeer is the number of bytes of this rank's arena that the peer has read.
	readByPeer *atomic.Uint64
}

var _ link.Shared = (*transport)(nil)

// Connect returns the link of this rank, a link.Shared, in a job with all ranks on one
// machine. Every rank calls it; it blocks until all have called it.
func Connect(ctx context.Context, site link.Site, o Options) (link.Link, error) {
	var away []string
	for rank := range site.Size() {
		if !site.SameHost(rank) {
			away = append(away, fmt.Sprintf("%d (%s)", rank, site.Host(rank)))
		}
	}
	if len(away) > 0 {
		return nil, fmt.Errorf("shm: connect: ranks %v do not share the memory of rank %d (%s); use another link", away, site.Rank(), site.Host(site.Rank()))
	}
	l := &transport{rank: site.Rank(), fd: -1, table: newTable(), pace: wait.New(pace(site.Size() > runtime.NumCPU()))}
	l.leases.Store(new([]lease))
	for rank := range site.Size() {
		l.peers = append(l.peers, &peer{host: site.Host(rank)})
	}
	if err := l.connect(ctx, site, o); err != nil {
		return nil, errors.Join(fmt.Errorf("shm: connect: %w", err), l.Close())
	}
	return l, nil
}

func (l *transport) connect(ctx context.Context, site link.Site, o Options) error {
	mine, err := l.open(o)
	if err != nil {
		mine = announcement{Error: "has no segment: " + err.Error()}
	}
	all, err := site.Gather(ctx, "shm segments", encode(mine))
	if err != nil {
		return err
	}
	if len(all) != len(l.peers) {
		return fmt.Errorf("%d announcements of %d ranks", len(all), len(l.peers))
	}
	// All ranks get the same announcements, so all of them stop here if one is wrong.
	var wrong []string
	told := make([]announcement, len(all))
	for rank, b := range all {
		if told[rank], err = parseAnnouncement(b); err != nil {
			wrong = append(wrong, l.about(rank, err))
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	// Each rank tells the others whether it could map their segments.
	for rank, a := range told {
		if rank == l.rank {
			continue
		}
		if err := l.join(rank, a); err != nil {
			wrong = append(wrong, l.about(rank, err))
		}
	}
	var v verdict
	if len(wrong) > 0 {
		v.Error = "finds that " + strings.Join(wrong, "; ")
	}
	if all, err = site.Gather(ctx, "shm mapped", encode(v)); err != nil {
		return err
	}
	if err := l.remove(); err != nil { // all ranks have opened the file, or have failed to
		return err
	}
	for rank, b := range all {
		if err := parseVerdict(b); err != nil && rank != l.rank {
			wrong = append(wrong, l.about(rank, err))
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

// about returns a text naming a rank and its error err.
func (l *transport) about(rank int, err error) string {
	return fmt.Sprintf("rank %d on %s %v", rank, l.peers[rank].host, err)
}

// open makes this rank's segment and maps it. It returns the data that the other ranks
// need to map it.
func (l *transport) open(o Options) (announcement, error) {
	n := len(l.peers)
	ring := o.Ring
	if ring == 0 {
		ring = ringFor(n)
	}
	shape, err := newLayout(l.rank, n, ring, 1<<62, os.Getpagesize())
	if err != nil {
		return announcement{}, err
	}
	reserve, err := reserveFor(o.Reserve, n, shape.arena)
	if err != nil {
		return announcement{}, err
	}
	shape.size = shape.arena + reserve
	if l.fd, l.path, err = create(o.Dir, shape.size); err != nil {
		return announcement{}, err
	}
	if err := l.take(0, shape.arena); err != nil {
		return announcement{}, err
	}
	mem, err := unix.Mmap(l.fd, 0, int(shape.size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return announcement{}, fmt.Errorf("map of %d bytes: %w; is there a limit on address space (ulimit -v)?", shape.size, err)
	}
	l.own = &segment{shape, mem}
	nonce := mem[atNonce : atNonce+nonceBytes]
	rand.Read(nonce)
	l.own.state().Store(stateOpen)
	for to, p := range l.peers {
		if to != l.rank {
			p.out.ring = newProducer(l.own, to)
			p.readByPeer = l.own.word64(l.own.channel(to) + atRead)
		}
	}
	a := announcement{Pid: os.Getpid(), Size: shape.size, Ring: ring, Nonce: nonce, Path: l.path}
	if l.path == "" {
		a.FD = l.fd
	}
	return a, nil
}

// join maps the segment of a peer, checking it against the peer's announcement.
func (l *transport) join(rank int, a announcement) error {
	shape, err := newLayout(rank, len(l.peers), a.Ring, a.Size, os.Getpagesize())
	if err != nil {
		return fmt.Errorf("announces %w", err)
	}
	fd, err := open(a)
	if err != nil {
		return fmt.Errorf("has a segment that cannot be opened: %w", err)
	}
	defer unix.Close(fd) // the mapping stays
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Size != a.Size {
		return fmt.Errorf("has a segment of %d bytes, want the %d it has announced", st.Size, a.Size)
	}
	mem, err := unix.Mmap(fd, 0, int(a.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("has a segment of %d bytes that cannot be mapped: %w; is there a limit on address space (ulimit -v)?", a.Size, err)
	}
	p := l.peers[rank]
	p.segment = &segment{shape, mem}
	if a.Pid == os.Getpid() {
		l.pace = wait.New(paceInside())
	}
	p.in.ring = newConsumer(p.segment, l.rank)
	if !bytes.Equal(mem[atNonce:atNonce+nonceBytes], a.Nonce) {
		return errors.New("has another segment than it has announced; is it in another name space of processes?")
	}
	return nil
}

// ringFor returns the size of a ring in bytes in a job of n ranks. Larger rings let ranks
// sharing a processor do more between two switches, until the rings no longer fit into
// the processor's cache: 512 KiB each way took 49 to 83 µs with rings of 64 and 128 KiB,
// 27 with 256 and 23 with 512 KiB and with 1 MiB.
func ringFor(n int) int {
	ring := 512 << 10
	for ring > 16<<10 && ring*(n-1) > 8<<20 {
		ring /= 2
	}
	return ring
}

// reserveFor returns the size of an arena in bytes, a whole number of pages. It is the
// requested size, or else the machine's memory, or less if a file or the address space
// cannot be that large. control is the size of the segment before the arena.
func reserveFor(asked int64, ranks int, control int64) (int64, error) {
	limit, err := sizeLimit()
	if err != nil {
		return 0, err
	}
	if limit < control {
		return 0, fmt.Errorf("files of at most %d bytes, want at least %d; raise the limit on the size of files (ulimit -f)", limit, control)
	}
	limit = min(limit, most/int64(ranks)) - control
	n := asked
	if n == 0 {
		if n, err = machineMemory(); err != nil {
			return 0, err
		}
		n = min(n, limit)
	}
	if n < 0 || n > limit {
		return 0, fmt.Errorf("%d bytes to reserve, want at most %d", n, limit)
	}
	return n / int64(os.Getpagesize()) * int64(os.Getpagesize()), nil
}

// remove removes the file name of this rank's segment, if it has one.
func (l *transport) remove() error {
	if l.path == "" || l.removed {
		return nil
	}
	l.removed = true
	return os.Remove(l.path)
}

func (l *transport) Rank() int         { return l.rank }
func (l *transport) Size() int         { return len(l.peers) }
func (l *transport) Transport() string { return "shm" }

// Close implements link.Link. After Close, memory from Alloc and View is not valid any more;
// leases still are.
func (l *transport) Close() error {
	// An exchange in progress notices closing, even if it sleeps, and releases mu.
	l.closing.Store(true)
	l.mapped.RLock()
	if l.own != nil && l.own.mem != nil {
		l.own.ringBell()
	}
	l.mapped.RUnlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mapped.Lock()
	defer l.mapped.Unlock()

	errs := []error{l.remove()}
	if l.own != nil && l.own.mem != nil {
		l.own.state().Store(stateClosed)
		for _, p := range l.peers {
			if p.segment != nil {
				p.segment.ringBell()
				errs = append(errs, unix.Munmap(p.segment.mem))
				p.segment.mem = nil
			}
		}
		errs = append(errs, unix.Munmap(l.own.mem))
		l.own.mem = nil
	}
	if l.fd >= 0 {
		errs = append(errs, unix.Close(l.fd))
		l.fd = -1
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("shm: close: %w", err)
	}
	return nil
}

// announcement describes a rank's own segment to the others.
type announcement struct {
	Error string `json:"error,omitempty"` // why the rank has no segment
	Pid   int    `json:"pid"`
	FD    int    `json:"fd"`             // the descriptor of memory without a name, in process Pid
	Path  string `json:"path,omitempty"` // the path of a file; empty for memory without a name
	Size  int64  `json:"size"`
	Ring  int    `json:"ring"`
	Nonce []byte `json:"nonce"` // the first bytes of the segment
}

// verdict is a rank's judgement of the others' segments.
type verdict struct {
	Error string `json:"error,omitempty"` // why the rank cannot use them
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot happen: v is a struct of texts, numbers and bytes
	}
	return b
}

// parse reads one JSON object into v. Anything else in b is an error.
func parse(b []byte, v any) error {
	if err := strictjson.UnmarshalKnown(b, v); err != nil {
		return fmt.Errorf("announces what cannot be read: %w; run the same version on every rank", err)
	}
	return nil
}

// parseAnnouncement reads an announcement, checking all that can be checked without the
// segment.
func parseAnnouncement(b []byte) (announcement, error) {
	var a announcement
	if err := parse(b, &a); err != nil {
		return a, err
	}
	switch {
	case a.Error != "":
		return a, errors.New(a.Error)
	case a.Pid <= 0 || a.FD < 0 || len(a.Nonce) != nonceBytes || a.Path != "" && (!filepath.IsAbs(a.Path) || filepath.Clean(a.Path) != a.Path):
		return a, fmt.Errorf("announces process %d, descriptor %d, file %s and %d bytes to know it by, want %d", a.Pid, a.FD, quoted.Text(a.Path), len(a.Nonce), nonceBytes)
	}
	return a, nil
}

// parseVerdict returns the error in a verdict.
func parseVerdict(b []byte) error {
	var v verdict
	if err := parse(b, &v); err != nil {
		return err
	}
	if v.Error != "" {
		return errors.New(v.Error)
	}
	return nil
}
