// Command bench measures gomoe against other libraries on this machine, in one run, and writes a
// table and a plot:
//
//	make bench-peers                           all installed peers
//	go run ./bench -only 'moe/f32' -rounds 9   some workloads
//	go run ./bench -list                       list the workloads
//
// gomoe opens each workload in this process. Every peer opens it in a child process, which lives as
// long as the run. The peer gets gomoe's inputs and results as .npy files. It prepares all its
// formulations of the workload, drops formulations with results differing from gomoe's, warms up
// the others, and keeps the fastest. Then the rounds begin. In each round, gomoe and every peer in
// turn run for a fraction of a second while the others wait. A round's time is the median of its
// runs, a row's time is the median of its rounds, and a row's ratio is the median of the rounds'
// ratios. So an event slowing down the whole machine for a while affects both sides alike.
//
// The rows of a peer that is not installed say how to install it; see README.md.
//
// Peers answer one JSON object per line: on start {"peer","version"}; to
// {"op":"open","workload","dir","params","tolerance","patience"} with {"formulations":
// [{"name","error","ns"} or {"name","failure"}],"best"}, {"unsupported":true} or {"failure"}; to
// {"op":"time","seconds"} with {"ns":[…]}, the time of each run; to {"op":"close"} with {}, after
// freeing the workload's memory. They end when stdin does.
package main
