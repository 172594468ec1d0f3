package mysql

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"testing"

	driver "github.com/go-sql-driver/mysql"
)

func TestFaultsOfTheServerAreToldFromThoseOfAStatement(t *testing.T) {
	code := func(n uint16) error { return fmt.Errorf("apply: %w", &driver.MySQLError{Number: n}) }
	for name, c := range map[string]struct {
		err  error
		want fault
	}{
		"a deadlock":                          {code(1213), faultConflict},
		"a lock time-out":                     {code(1205), faultConflict},
		"a deadlock of a commit":              {&commitError{code(1213)}, faultConflict},
		"no connection left":                  {code(1040), faultServer},
		"read only":                           {code(1290), faultServer},
		"the disk is full":                    {code(1021), faultServer},
		"a table is full":                     {code(1114), faultServer},
		"a connection was killed":             {code(1927), faultLost},
		"a connection was killed at a commit": {&commitError{code(1927)}, faultUnknown},
		"a connection is gone":                {driver.ErrInvalidConn, faultLost},
		"a connection is bad":                 {sqldriver.ErrBadConn, faultLost},
		"a connection is gone at a commit":    {&commitError{driver.ErrInvalidConn}, faultUnknown},
		"a node that is not in sync":          {code(1047), faultServer},
		"a node that has left at a commit":    {&commitError{code(1047)}, faultServer},
		"a cluster's no to a commit":          {&commitError{code(3101)}, faultConflict},
		"a cluster lost at a commit":          {&commitError{code(1180)}, faultUnknown},
		"a cluster lost before":               {code(1180), faultLost},
		"a group that a commit never reached": {&commitError{code(3100)}, faultUnknown},
		"a group's no before":                 {code(3101), faultConflict},
		"a table that was changed":            {code(1412), faultConflict},
		"a host that is blocked":              {code(1129), faultServer},
		"a user's limit":                      {code(1226), faultServer},
		"a shutdown":                          {code(1053), faultLost},
		"a proxy's server gone":               {code(2006), faultLost},
		"a proxy's server lost":               {code(2013), faultLost},
		"the same at a commit":                {&commitError{code(2013)}, faultUnknown},
		"a proxy without a server":            {code(9001), faultServer},
		"a duplicate key":                     {code(1062), faultOther},
		"a wrong statement":                   {code(1064), faultOther},
		"a value that is cut":                 {code(1406), faultOther},
		"a context that has ended":            {context.Canceled, faultOther},
		"the transaction has gone":            {errRolledBack, faultConflict},
		"somebody else's error":               {errors.New("no stock"), faultOther},
		"nothing":                             {nil, faultOther},
	} {
		if got := faultOf(c.err); got != c.want {
			t.Errorf("%s is %d, want %d", name, got, c.want)
		}
	}
}

func TestAServerThatCannotBeWrittenToIsLeft(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	if err := s.db.PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.left(&driver.MySQLError{Number: 1213})
	if n := s.db.Stats().Idle; n != 1 {
		t.Fatalf("%d connections are kept after a deadlock, want one", n)
	}
	s.left(fmt.Errorf("apply: %w", &driver.MySQLError{Number: 1290}))
	if n := s.db.Stats().Idle; n != 0 {
		t.Errorf("%d connections are kept to a server that is read only", n)
	}
	if err := s.db.PingContext(t.Context()); err != nil || s.db.Stats().Idle != 1 {
		t.Errorf("no connection is kept any more, %v", err)
	}
}
