package rdma

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Service is a kind of queue pair.
type Service uint8

// The kinds of queue pair.
const (
	AnyService Service = iota // RC where the device has it, else UC
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
	// Library is the path of the verbs library; empty for the system's.
	Library string
	// QueuePairs and Regions are how many a device has; 0 for 10 and 100, which
	// Thunderbolt's have. More are not asked for.
	QueuePairs, Regions int
	// Service is the kind of queue pair.
	Service Service
	// Whole sends data as JACCL does: in whole buffers of the endpoint, which begin at a page
	// and have the length of their class, so that data is copied into them and out of them.
	// Otherwise package verbs sends from and to any byte of registered memory, at any length,
	// which has not been seen to work over Thunderbolt. All ranks have to agree.
	Whole bool
}

// regionsPerPeer is how many memory regions an endpoint takes for its slabs.
const RegionsPerPeer = 2

// Thunderbolt's limits, which JACCL's users have run into.
const (
	defaultQueuePairs = 10
	defaultRegions    = 100
)

func (s Settings) WithDefaults() (Settings, error) {
	if s.QueuePairs < 0 || s.Regions < 0 || s.Service > UC {
		return s, fmt.Errorf("rdma: settings of %d queue pairs, %d regions and %v, want no negative numbers and any, RC or UC", s.QueuePairs, s.Regions, s.Service)
	}
	if s.QueuePairs == 0 {
		s.QueuePairs = defaultQueuePairs
	}
	if s.Regions == 0 {
		s.Regions = defaultRegions
	}
	return s, nil
}

// fits returns an error if the endpoints of a row of devices, one for each name that is
// not empty, and so many memory regions of every device beside their slabs are more than
// a device has.
func (s Settings) Fits(row []string, regions int) error {
	peers := map[string]int{}
	for _, device := range row {
		if device != "" {
			peers[device]++
		}
	}
	var errs []error
	for _, device := range slices.Sorted(maps.Keys(peers)) {
		n := peers[device]
		if n > s.QueuePairs {
			errs = append(errs, fmt.Errorf("device %s faces %d ranks, which takes %d queue pairs, and has %d", device, n, n, s.QueuePairs))
		}
		if sum := n*RegionsPerPeer + regions; sum > s.Regions {
			errs = append(errs, fmt.Errorf("device %s faces %d ranks, which takes %d memory regions, and %d for leases, %d in all, and has %d", device, n, n*RegionsPerPeer, regions, sum, s.Regions))
		}
	}
	return errors.Join(errs...)
}
