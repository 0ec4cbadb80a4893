//go:build darwin || native

package world

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/link/verbs"
	"github.com/gomoe/gomoe/jaccl/rdma"
)

// overVerbs connects ranks by RDMA devices.
func overVerbs(s *state, ctx context.Context, job environ.Job) (jaccl.Communicator, error) {
	return s.overPlace(ctx, job, func(ctx context.Context, site link.Site) (link.Link, error) {
		devices, err := agreedDevices(ctx, site, job)
		if err != nil {
			return nil, err
		}
		return verbs.Connect(ctx, site, devices, rdma.Settings{Library: job.Verbs, Whole: job.Whole})
	})
}

// agreedDevices reads the RDMA devices connecting the ranks. If one rank cannot, all
// ranks get an error, so that none waits for it.
func agreedDevices(ctx context.Context, site link.Site, job environ.Job) (hostfile.Devices, error) {
	devices, err := devicesOf(job)
	missing := ""
	if err != nil {
		missing = err.Error()
	}
	all, gone := site.Gather(ctx, "gomoe: devices", []byte(missing[:min(len(missing), 1000)]))
	if err != nil || gone != nil {
		return nil, errors.Join(err, gone)
	}
	for r, b := range all {
		if len(b) > 0 {
			return nil, fmt.Errorf("rank %d (%s) knows no devices", r, site.Host(r))
		}
	}
	return devices, nil
}

// devicesOf reads the RDMA devices connecting the ranks.
func devicesOf(job environ.Job) (hostfile.Devices, error) {
	text, err := job.ReadDevices()
	if err != nil {
		return nil, err
	}
	d, err := hostfile.ParseDevices(text)
	if err != nil {
		return nil, err
	}
	if len(d) != job.Size {
		return nil, fmt.Errorf("devices of %d ranks for a job of %d; is the file that of this job?", len(d), job.Size)
	}
	return d, nil
}
