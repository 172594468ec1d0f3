package shop

import (
	"net/http"
	"testing"

	"go.uber.org/goleak"
)

// closing closes the tests' own connections when all tests have run.
type closing struct{ *testing.M }

func (c closing) Run() int {
	code := c.M.Run()
	http.DefaultClient.CloseIdleConnections()
	return code
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(closing{m}) }
