// Package hostfile reads MLX's files describing a job: its hosts and their addresses.
// ParseHosts reads the hostfile of mlx.launch, ParseNodes the addresses of MLX's ring,
// and ParseDevices the matrix of RDMA devices. The package reads the output of
// mlx.distributed_config unchanged. Files are not trusted: every error gives the place of
// the mistake in the file and the expected value. The package opens no files and starts
// nothing.
package hostfile
