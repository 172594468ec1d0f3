package cli

import (
	"errors"
	"fmt"
)

// Exit codes of every command.
const (
	ExitOK = 0
	// ExitFinding: the command ran and found a violation, or refused an act.
	ExitFinding = 1
	// ExitUsage: a wrong flag, word, number or input file.
	ExitUsage = 2
	// ExitUnreachable: something needed did not answer, or not in time.
	ExitUnreachable = 3
)

// ExitError carries the exit code a command ends with. Its text goes to
// stderr unless it is empty (everything was said already).
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// usagef returns an error of wrong usage.
func usagef(format string, args ...any) error {
	return &ExitError{Code: ExitUsage, Err: fmt.Errorf(format, args...)}
}

// unreachablef returns an error of something that did not answer.
func unreachablef(format string, args ...any) error {
	return &ExitError{Code: ExitUnreachable, Err: fmt.Errorf(format, args...)}
}

// finding returns an error that ends the command with ExitFinding.
func finding(err error) error { return &ExitError{Code: ExitFinding, Err: err} }

func exitCode(err error) int {
	var e *ExitError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &e):
		return e.Code
	}
	return ExitFinding
}
