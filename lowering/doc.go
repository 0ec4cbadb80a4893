// Package lowering turns a placed program into a plan: a list of kernels and
// collectives over storage slots that every rank runs alike.
package lowering
