// Package faults has tests only: ranks in processes of their own that are killed,
// stopped, cut off, slow, or call something else than the others, in every collective
// and over every transport. Every survivor gets an error that says which rank, in
// time, and nothing is left behind.
package faults
