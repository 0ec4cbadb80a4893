//go:build darwin || native

package world

import (
	"context"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/mlx/mesh"
	"github.com/gomoe/gomoe/jaccl/rdma"
)

// overMesh connects the ranks by MLX's JACCL. If MLX's variables name the devices, other
// ranks may be processes of MLX; otherwise the ranks first meet.
func overMesh(s *state, ctx context.Context, job environ.Job) (jaccl.Communicator, error) {
	o := mesh.Options{Settings: rdma.Settings{Library: job.Verbs}, Rank: job.Rank, Coordinator: job.Coordinator, Deadline: s.deadline}
	if job.Devices != "" {
		var err error
		if o.Devices, err = devicesOf(job); err != nil {
			return s.orTCP(ctx, job, nil, err)
		}
		c, err := mesh.Connect(ctx, o)
		return s.orTCP(ctx, job, c, err)
	}
	return s.met(ctx, job, func(place link.Site) (jaccl.Communicator, error) {
		var err error
		if o.Devices, err = agreedDevices(ctx, place, job); err != nil {
			return nil, err
		}
		if o.Conns, err = place.Dial(ctx, "gomoe: JACCL's side channel"); err != nil {
			return nil, err
		}
		return mesh.Connect(ctx, o)
	})
}
