// Package faults has tests only: ranks in processes of their own are killed, stopped, cut
// off or slowed down, or call another operation than the other ranks, in every collective
// and over every transport. The tests check that every survivor gets an error in time
// naming the rank, and that nothing is left over.
package faults
