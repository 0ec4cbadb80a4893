package rdma

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gomoe/gomoe/jaccl/job/hostfile"
)

// Service is a kind of queue pair.
type Service uint8

// The kinds of queue pair.
const (
	AnyService Service = iota // RC if the device has it, otherwise UC
	RC                        // reliable connection: ordinary adapters
	UC                        // unreliable connection: Thunderbolt, where it loses nothing
)

func (s Service) String() string {
	switch s {
	case AnyService:
		return "any"
	case RC:
		return "RC"
	case UC:
		return "UC"
	}
	return fmt.Sprintf("service(%d)", uint8(s))
}

// Settings are about the library and the devices of this rank. The zero Settings are
// usable.
type Settings struct {
	// Library is the path of the verbs library; empty means the system's library.
	Library string
	// QueuePairs and Regions are the numbers of queue pairs and memory regions of a
	// device; 0 means the device's own numbers, or 10 and 100 if it reports none.
	QueuePairs, Regions int
	// Service is the kind of queue pair.
	Service Service
	// Whole makes package verbs send data like JACCL: in whole buffers of the endpoint,
	// aligned to a page and with the length of their class. Data is copied into these
	// buffers and out of them. Otherwise package verbs sends from and to any byte of
	// registered memory, at any length, which has not been seen to work over Thunderbolt.
	// All ranks must agree.
	Whole bool
}

// RegionsPerPeer is the number of memory regions for an endpoint's slabs.
const RegionsPerPeer = 2

// The limits of Thunderbolt devices reported by users of JACCL. They are used if the
// library does not report a device's limits.
const (
	defaultQueuePairs = 10
	defaultRegions    = 100
)

// Check returns an error if the settings are wrong.
func (s Settings) Check() error {
	if s.QueuePairs < 0 || s.Regions < 0 || s.Service > UC {
		return fmt.Errorf("rdma: settings of %d queue pairs, %d regions and %v, want no negative numbers and any, RC or UC", s.QueuePairs, s.Regions, s.Service)
	}
	return nil
}

// Limits opens the devices of a row, returning their numbers of queue pairs and memory
// regions: from the settings, or else from the device.
func (s Settings) Limits(lib *Library, open Adapters, row []string) (Limits, error) {
	limits := Limits{}
	for _, device := range row {
		if _, known := limits[device]; known || device == "" {
			continue
		}
		a, err := open.open(lib, device)
		if err != nil {
			return nil, fmt.Errorf("device %s, which faces rank %d: %w", device, slices.Index(row, device), err)
		}
		l := lib.limits(a.ctx)
		if s.QueuePairs > 0 {
			l.queuePairs = s.QueuePairs
		}
		if s.Regions > 0 {
			l.regions = s.Regions
		}
		limits[device] = l
	}
	return limits, nil
}

// Limits holds the limits of devices, by name.
type Limits map[string]limit

type limit struct{ queuePairs, regions int }

// limits asks a device for its limits, using Thunderbolt's for limits that the device
// does not report.
func (l *Library) limits(ctx uintptr) limit {
	has := limit{defaultQueuePairs, defaultRegions}
	attrs, err := NewRegion(deviceSize)
	if err != nil || l.queryDevice == 0 {
		return has
	}
	defer attrs.Close()
	if l.do("ibv_query_device", l.queryDevice, ctx, attrs.addr) != nil {
		return has
	}
	if n := int(int32(*word32(attrs.addr, deviceMaxQP))); n > 0 {
		has.queuePairs = n
	}
	if n := int(int32(*word32(attrs.addr, deviceMaxMR))); n > 0 {
		has.regions = n
	}
	return has
}

// Fits returns an error if a device of the row has too few queue pairs or memory regions.
// Each name in the row that is not empty stands for an endpoint at that device, with two
// slabs. regions is the number of further memory regions needed of every device.
func (l Limits) Fits(row []string, regions int) error {
	peers := map[string]int{}
	for _, device := range row {
		if device != "" {
			peers[device]++
		}
	}
	var errs []error
	for _, device := range slices.Sorted(maps.Keys(peers)) {
		n, has := peers[device], l[device]
		if n > has.queuePairs {
			errs = append(errs, fmt.Errorf("device %s faces %d ranks, which takes %d queue pairs, and has %d", device, n, n, has.queuePairs))
		}
		if sum := n*RegionsPerPeer + regions; sum > has.regions {
			errs = append(errs, fmt.Errorf("device %s faces %d ranks, which takes %d memory regions, and %d for leases, %d in all, and has %d", device, n, n*RegionsPerPeer, regions, sum, has.regions))
		}
	}
	return errors.Join(errs...)
}

// Wires returns rank's devices as one row for each wire of the mesh. A row holds, for each
// peer, the name of the device that faces it, and "" for rank itself. As in JACCL, a mesh
// has as many wires as the pair of ranks with the fewest wires; further wires are not used.
func Wires(devices hostfile.Devices, rank, size int) ([][]string, error) {
	if len(devices) != size {
		return nil, fmt.Errorf("devices of %d ranks, want those of %d", len(devices), size)
	}
	if err := devices.Check(); err != nil {
		return nil, err
	}
	if err := devices.Mesh(); err != nil {
		return nil, err
	}
	wires := hostfile.MaxWires
	for i, row := range devices {
		for j, cell := range row {
			if i != j {
				wires = min(wires, len(cell))
			}
		}
	}
	rows := make([][]string, wires)
	for w := range rows {
		rows[w] = make([]string, size)
		for peer, cell := range devices[rank] {
			if peer != rank {
				rows[w][peer] = cell[w]
			}
		}
	}
	return rows, nil
}

// MultiWire is the least number of bytes that are divided among all wires, both in JACCL
// and in package verbs.
const MultiWire = 512 << 10

// Share returns the range of n elements, from begin up to before end, sent over wire w of
// the given number of wires. It divides like JACCL.
func Share(n, w, wires int) (begin, end int) {
	per := (n + wires - 1) / wires
	return min(n, w*per), min(n, (w+1)*per)
}
