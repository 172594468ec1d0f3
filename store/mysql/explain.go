package mysql

import (
	"errors"
	"fmt"

	driver "github.com/go-sql-driver/mysql"
)

// Numbers of errors that are told apart.
const (
	codeNoDatabase = 1049
	codePassword   = 1045
	codeNoGrant    = 1044 // no right for the database
	codeNoRight    = 1142
	codeDuplicate  = 1062
	codeNoTable    = 1146
	codeNoColumn   = 1054
	codeTooMany    = 1040
	codeReadOnly   = 1290
	codeDiskFull   = 1021
	codeNeedsRight = 1227 // one that is not of a database
	codeLockWait   = 1205
	codeNoWait     = 3572 // MySQL: a lock is not given at once
	codeNoFunction = 1305
)

// explain puts what a person can mend into a sentence, with the SQL for it.
func explain(err error) error {
	var e *driver.MySQLError
	if !errors.As(err, &e) {
		return err
	}
	switch e.Number {
	case codePassword:
		return fmt.Errorf("the server refuses this user or password; ALTER USER … IDENTIFIED BY '…' sets one: %w", err)
	case codeNoDatabase:
		return fmt.Errorf("the database does not exist; CREATE DATABASE … makes it: %w", err)
	case codeNoGrant, codeNoRight, codeNoColumnRight:
		return fmt.Errorf("a right is missing; GRANT ALL ON name.* TO user gives it: %w", err)
	case codeReadOnly:
		return fmt.Errorf("the server can't be written to; give the URL of the primary: %w", err)
	case codeNoTable, codeNoColumn:
		return fmt.Errorf("a table or column of Settle is missing or was changed: %w", err)
	case codeTooMany:
		return fmt.Errorf("the server has no connection left (max_connections): %w", err)
	case codeUserTooMany, codeUserLimit:
		return fmt.Errorf("the user has used up what he may (ALTER USER … WITH MAX_USER_CONNECTIONS 0 takes that limit away): %w", err)
	case codeHostBlocked:
		return fmt.Errorf("the server lets nobody in from this machine, after too many connections that came to nothing; FLUSH HOSTS mends it: %w", err)
	case codeReadOnlyMode:
		return fmt.Errorf("the server can't be written to; give the URL of the primary: %w", err)
	case codeNotReady:
		return fmt.Errorf("this node is not in sync with its cluster; it is waited for: %w", err)
	case codeShutdown:
		return fmt.Errorf("the server is shutting down: %w", err)
	case codeDiskFull:
		return fmt.Errorf("the server's disk is full: %w", err)
	}
	return err
}

func hasCode(err error, code uint16) bool {
	var e *driver.MySQLError
	return errors.As(err, &e) && e.Number == code
}
