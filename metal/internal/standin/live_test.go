//go:build linux && (amd64 || arm64)

package standin

import (
	"maps"
	"testing"

	"github.com/ebitengine/purego"
)

// Every object that is not released is counted, by class, and so is what is autoreleased
// where no pool is.
func TestLive(t *testing.T) {
	r := rawly(t, Options{})
	r.device, _, _ = purego.SyscallN(r.create)
	if r.Report().NoPool() != 1 {
		t.Errorf("%d objects outside of pools, want that of the device", r.Report().NoPool())
	}
	pool, _, _ := purego.SyscallN(r.push)
	queue := r.msg(r.device, "newCommandQueue")
	for range 3 {
		r.msg(r.device, "newSharedEvent")
	}
	r.msg(queue, "commandBuffer")
	want := map[string]int{"MTLDevice": 1, "MTLCommandQueue": 1, "MTLSharedEvent": 3, "MTLCommandBuffer": 1}
	if got := r.Report().Live(); !maps.Equal(got, want) {
		t.Errorf("live %v, want %v", got, want)
	}
	purego.SyscallN(r.pop, pool)
	delete(want, "MTLCommandBuffer")
	if got := r.Report().Live(); !maps.Equal(got, want) {
		t.Errorf("live after the pool %v, want %v", got, want)
	}
	r.string("nobody releases this")
	if r.Report().NoPool() != 2 || r.Report().Live()["NSString"] != 1 {
		t.Errorf("report %+v after a string outside of a pool", r.Report())
	}
	if len(r.Report().Violations()) != 0 {
		t.Errorf("violations %q", r.Report().Violations())
	}
}

// Stand-ins share nothing.
func TestApart(t *testing.T) {
	a, b := rawly(t, Options{}), rawly(t, Options{Absent: true})
	pool, _, _ := purego.SyscallN(a.push)
	defer purego.SyscallN(a.pop, pool)
	a.device, _, _ = purego.SyscallN(a.create)
	if d, _, _ := purego.SyscallN(b.create); d != 0 || a.device == 0 {
		t.Errorf("devices %#x and %#x, want one and none", a.device, d)
	}
	a.msg(a.device, "nonsense")
	if len(a.Report().Violations()) != 1 || len(b.Report().Violations()) != 0 || len(b.Report().Live()) != 0 {
		t.Errorf("reports %+v and %+v", a.Report(), b.Report())
	}
	b.Close()
	if a.Report().Live()["MTLDevice"] != 1 {
		t.Error("closing one has changed the other")
	}
}
