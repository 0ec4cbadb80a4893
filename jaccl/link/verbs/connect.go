package verbs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/rdma"
)

// Connect connects the ranks of a job through devices that face each other. Every rank
// calls it with an equal matrix of devices, for a mesh of at most 8 ranks; rdma.Wires
// determines the wires used between two ranks. It blocks until all ranks are connected or
// one of them has failed. Then every rank returns an error naming the failed rank and the
// missing resource, and nothing is left open.
func Connect(ctx context.Context, site link.Site, devices hostfile.Devices, settings rdma.Settings) (link.Link, error) {
	l := &Link{rank: site.Rank(), size: site.Size(), span: maxSpan, adapters: rdma.Adapters{}}
	err := l.connect(ctx, site, devices, settings)
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("rdma: connect: %w", err)
	}
	return l, nil
}

func (l *Link) connect(ctx context.Context, site link.Site, devices hostfile.Devices, settings rdma.Settings) error {
	all, err := agree(ctx, site, "rdma: endpoints", l.open(devices, settings), l.offers)
	if err != nil {
		return err
	}
	if err := l.match(site, all); err != nil {
		return err // the data is the same on every rank, so that every rank returns it
	}
	_, err = agree(ctx, site, "rdma: queue pairs", l.join(all), nil)
	return err
}

// agree is an all-gather of the ranks' offers or failures. It returns the offers of all
// ranks. If a rank has failed, all ranks return an error naming it.
func agree(ctx context.Context, site link.Site, key string, failed error, offer func() []byte) ([][]byte, error) {
	mine := []byte{1}
	switch {
	case failed != nil:
		const most = 1000
		text := failed.Error()
		mine = append([]byte{0}, text[:min(most, len(text))]...)
	case offer != nil:
		mine = append(mine, offer()...)
	}
	all, err := site.Gather(ctx, key, mine)
	switch {
	case failed != nil:
		return nil, failed // the error itself, which is more precise than the text for other ranks
	case err != nil:
		return nil, err
	case len(all) != site.Size():
		return nil, fmt.Errorf("%d ranks answer, want %d", len(all), site.Size())
	}
	offers := make([][]byte, len(all)) // a new slice, as all may belong to the site
	var errs []error
	for i, b := range all {
		switch {
		case len(b) == 0:
			errs = append(errs, fmt.Errorf("rank %d (%s) answers nothing", i, site.Host(i)))
		case b[0] == 0:
			errs = append(errs, fmt.Errorf("rank %d (%s) failed: %s", i, site.Host(i), b[1:]))
		default:
			offers[i] = b[1:]
		}
	}
	return offers, errors.Join(errs...)
}

// open opens the endpoints.
func (l *Link) open(devices hostfile.Devices, settings rdma.Settings) error {
	if err := settings.Check(); err != nil {
		return err
	}
	l.settings = settings
	if l.size == 1 {
		l.eps = make([]*rdma.Endpoint, 1)
		return nil
	}
	rows, err := rdma.Wires(devices, l.rank, l.size)
	if err != nil {
		return err
	}
	l.row = slices.Concat(rows...)
	l.eps = make([]*rdma.Endpoint, len(l.row))
	if l.lib, err = rdma.OpenLibrary(l.settings.Library); err != nil {
		return err
	}
	if l.limits, err = settings.Limits(l.lib, l.adapters, l.row); err != nil {
		return err
	}
	if err := l.limits.Fits(l.row, 0); err != nil {
		return err
	}
	l.pace = l.lib.Pace()
	for i, device := range l.row {
		peer := i % l.size
		if peer == l.rank {
			continue
		}
		if l.eps[i], err = rdma.NewEndpoint(l.lib, l.adapters, peer, device, l.settings.Service); err != nil {
			return err
		}
	}
	return nil
}

const (
	offerSize = 1 + rdma.DestinationSize
	wholeBit  = 1 << 7 // bit of an offer's kind: rdma.Settings.Whole is set
)

// offers returns, for every wire and rank, the kind and address of the queue pair that faces
// the rank.
func (l *Link) offers() []byte {
	b := make([]byte, 0, len(l.eps)*offerSize)
	for _, e := range l.eps {
		if e == nil {
			b = rdma.NoDestination().Append(append(b, 0))
		} else {
			kind := byte(e.Service)
			if l.settings.Whole {
				kind |= wholeBit
			}
			b = e.Address.Append(append(b, kind))
		}
	}
	return b
}

// match compares the offers of all ranks: both ends of a connection must be of the same kind.
func (l *Link) match(site link.Site, all [][]byte) error {
	for i, b := range all {
		if want := len(l.eps) * offerSize; len(b) != want {
			return fmt.Errorf("rank %d (%s) offers %d bytes, want %d for a mesh of %d on %d wires; check that all ranks have the same file of devices", i, site.Host(i), len(b), want, l.size, len(l.eps)/l.size)
		}
	}
	for i := range all {
		for at := range l.eps {
			k, first := at%l.size, at/l.size*l.size // the other rank, and the offset of the wire's offers
			if k >= i {
				continue
			}
			kinds := [2]byte{all[i][at*offerSize], all[k][(first+i)*offerSize]}
			if (kinds[0]^kinds[1])&wholeBit != 0 {
				return fmt.Errorf("one of rank %d (%s) and rank %d (%s) sends whole buffers and the other does not, want one setting on all ranks: GOMOE_WHOLE_BUFFERS", i, site.Host(i), k, site.Host(k))
			}
			a, b := rdma.Service(kinds[0]&^wholeBit), rdma.Service(kinds[1]&^wholeBit)
			if a != b {
				return fmt.Errorf("rank %d (%s) has %v queue pairs and rank %d (%s) %v, want one kind; Thunderbolt, which has UC, and adapters that have RC do not connect", i, site.Host(i), a, k, site.Host(k), b)
			}
		}
	}
	return nil
}

// join connects the endpoints with the queue pairs that the peers offer.
func (l *Link) join(all [][]byte) error {
	for i, e := range l.eps {
		if e == nil {
			continue
		}
		first := i / l.size * l.size
		if err := e.Connect(rdma.ParseDestination(all[e.Peer][(first+l.rank)*offerSize+1:])); err != nil {
			return err
		}
	}
	return nil
}
