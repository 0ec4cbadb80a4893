//go:build peers

package main

import "testing"

// Other launchers' ranks find each other, too.
func TestOtherLaunchers(t *testing.T) {
	for name, command := range map[string]string{"MPICH": "mpiexec.hydra -n 3", "MLX": "mlx.launch -n 3"} {
		t.Run(name, func(t *testing.T) { launched(t, command) })
	}
}
