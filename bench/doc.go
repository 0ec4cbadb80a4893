// Command bench measures gomoe against other libraries on this machine, in one
// run, and writes a table and a plot:
//
//	make bench-peers                           all that is installed
//	go run ./bench -only 'moe/f32' -rounds 9   some of it
//	go run ./bench -list                       what there is
//
// Each workload is opened by gomoe in this process, and by every peer in a child
// process of its own, which lives as long as the run. The peer gets gomoe's inputs and
// results as .npy files. It prepares every formulation of the workload that it knows,
// drops those whose results differ from gomoe's, warms up the others, and keeps the
// fastest. Then the rounds begin. In each round, gomoe and every peer in turn run for
// a fraction of a second while the others wait. A round's time is the median of its
// runs, a row's time is the median of its rounds, and a row's ratio is the median of
// the rounds' ratios. So whatever slows down the whole machine for a while affects
// both sides alike.
//
// The rows of a peer that is not installed say how to install it; see README.md.
//
// Peers answer one JSON object per line: on start {"peer","version"}; to
// {"op":"open","workload","dir","params","tolerance","patience"} with {"formulations":
// [{"name","error","ns"} or {"name","failure"}],"best"}, {"unsupported":true} or
// {"failure"}; to {"op":"time","seconds"} with {"ns":[…]}, the time of each run; to
// {"op":"close"} with {}, when they have given back the workload's memory.
// They end when stdin does.
package main
