// Package docs tests the documents: README.md, RATIONALE.md, bench/RESULTS.md and the pages of
// this folder. It has tests only. They follow each document from top to bottom, like a reader
// who starts in the folder of a checkout with the project's programs in PATH. reference.md is
// generated, and the tests of cmd/gomoe check it.
//
// # Fences
//
// A fence is one of these; any other fails the test.
//
//   - console: commands, each on a line behind "$ ", with their output below. A command
//     that fails shows "exit status N" below its output.
//   - sh: commands whose output is not shown, which succeed.
//   - sh whose first line is a comment "# not run: REASON": commands that need what a
//     test does not have, such as two Macs, or an hour. Their flags, packages and targets
//     of make are checked.
//   - any other language: a file. The paragraph above ends with its name in backquotes and
//     a colon. If the repository has the file, the fence is an excerpt of it, whatever the
//     indentation. Otherwise the file is written into the reader's folder.
//
// In output and in excerpts "…" stands for any text of a line, and alone on a line for any
// number of lines. Columns of a tab or four spaces are no code here: every command and
// every program is in a fence.
//
// # Text
//
// Links lead to files and headings that are there. A name in backquotes, such as
// graph.Trace, is one that the package has. A command in backquotes has flags that exist.
//
// Every public package has an Example, and a comment that says more than what it is.
package docs
