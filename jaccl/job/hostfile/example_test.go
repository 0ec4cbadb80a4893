package hostfile_test

import (
	"fmt"

	"github.com/gomoe/gomoe/jaccl/job/hostfile"
)

// A hostfile as mlx.distributed_config writes it, and one with a mistake.
func ExampleParseHosts() {
	h, err := hostfile.ParseHosts([]byte(`[
		{"ssh": "node1", "ips": ["10.0.0.1"]},
		{"ssh": "node2", "ips": ["10.0.0.2"]}
	]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, host := range h.Hosts {
		fmt.Println(host.SSH, host.IPs)
	}
	_, err = hostfile.ParseHosts([]byte(`[{"ips": ["10.0.0.1"]}]`))
	fmt.Println(err)
	// Output:
	// node1 [10.0.0.1]
	// node2 [10.0.0.2]
	// hostfile: hosts[0]: no "ssh", want the name that ssh is told, or localhost
}
