// Package hostfile reads the files with which MLX describes a job: which hosts
// take part and how to reach them. What mlx.distributed_config writes is read as
// it is, and nothing in a file is trusted: every error says where in the file it
// lies and what is wanted there.
package hostfile
