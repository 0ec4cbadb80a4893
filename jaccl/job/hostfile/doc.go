// Package hostfile reads the files with which MLX describes a job: which hosts take
// part and how they are reached. ParseHosts reads the hostfile of mlx.launch,
// ParseNodes the addresses of MLX's ring, and ParseDevices the matrix of RDMA
// devices. The package reads what mlx.distributed_config writes without changes.
// Nothing in a file is trusted: every error says where in the file the mistake is and
// what is wanted there. The package opens no files and starts nothing.
package hostfile
