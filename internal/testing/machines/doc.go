// Package machines has tests only: a job runs on several machines, which are network name
// spaces with a shared memory of their own, and the bytes exchanged between machines are
// counted.
package machines
