package world_test

import (
	"context"
	"fmt"

	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/world"
)

// Started by hand, a process has all ranks of the mesh. Started by gomoe launch, mpirun and
// others, the same lines make it one rank of their job.
func Example() {
	mesh, err := sharding.ParseMesh("dp=2,ep=2")
	if err != nil {
		fmt.Println(err)
		return
	}
	var w world.World
	defer w.Close()
	if err := w.Setup(context.Background(), world.Config{Mesh: &mesh, Mode: world.InProcess}); err != nil {
		fmt.Println(err)
		return
	}
	info, err := w.Info()
	fmt.Println(info, info.Local, err)

	groups, err := w.Group(mesh, "ep")
	fmt.Println("rank 3 is rank", groups[3].Rank(), "of", groups[3].Size(), "in its group over ep", err)
	// Output:
	// 4 ranks in this process [0 1 2 3] <nil>
	// rank 3 is rank 1 of 2 in its group over ep <nil>
}
