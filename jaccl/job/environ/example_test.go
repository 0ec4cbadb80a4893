package environ_test

import (
	"fmt"

	"github.com/gomoe/gomoe/jaccl/job/environ"
)

// What torchrun tells one of its processes.
func ExampleDetect() {
	env := map[string]string{"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
	job, err := environ.Detect(func(name string) string { return env[name] })
	fmt.Println(job, err)
	fmt.Println("ranks meet at", job.Coordinator)
	// Output:
	// rank 1 of 4 (RANK=1 WORLD_SIZE=4 MASTER_ADDR=node1 MASTER_PORT=29500) <nil>
	// ranks meet at node1:29500
}
