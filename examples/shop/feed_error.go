package shop

import (
	"fmt"
	"strings"
)

// maxFeedProblems is how many problems of one file are told apart; the rest
// are counted.
const maxFeedProblems = 20

// FeedProblem is one thing that is wrong with an input file. Line is 0 when it
// concerns the whole file, Column empty when it concerns the whole line.
type FeedProblem struct {
	Line           int
	Column, Reason string
}

func (p FeedProblem) String() string {
	var where string
	if p.Line > 0 {
		where = fmt.Sprintf("line %d: ", p.Line)
	}
	if p.Column != "" {
		where += p.Column + " "
	}
	return where + p.Reason
}

// FeedError says why an input file was refused. Nothing of the file was used.
type FeedError struct {
	// Source is the file's path; empty for a stream.
	Source string
	// Problems are the first of them, in order of lines.
	Problems []FeedProblem
	// More counts those that are not listed.
	More int
}

func (e *FeedError) add(line int, column, reason string) {
	if len(e.Problems) == maxFeedProblems {
		e.More++
		return
	}
	e.Problems = append(e.Problems, FeedProblem{line, column, reason})
}

func (e *FeedError) Error() string {
	source := e.Source
	if source == "" {
		source = "input"
	}
	lines := make([]string, 0, len(e.Problems)+1)
	for _, p := range e.Problems {
		lines = append(lines, p.String())
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", e.More))
	}
	return fmt.Sprintf("orders file %s: %s", source, strings.Join(lines, "; "))
}
