// Package gomoe compiles programs for meshes of ranks and runs them, in this
// process or in one per rank. It ties the packages below it together; each can be used by itself.
package gomoe
