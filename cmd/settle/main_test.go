package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary is the program, too.
func TestMain(m *testing.M) {
	if os.Getenv("SETTLE_TEST_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestASignalThatComesSeveralTimesAtOnceIsOneWish(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	dir := t.TempDir()
	config := filepath.Join(dir, "settle.yml")
	text := fmt.Sprintf("embedded: {dir: %s/broker, port: %d}\nsources: {order: {db: 'sqlite://%s/order.db', migrate: true}}\n", dir, port, dir)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "serve", "-c", config)
	cmd.Env = append(os.Environ(), "SETTLE_TEST_MAIN=1")
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	for lines := bufio.NewScanner(said); lines.Scan(); {
		log.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "msg=leading source=order") {
			// Two at the same instant would be one to the kernel.
			for range 20 {
				if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Millisecond)
			}
		}
	}
	if err := cmd.Wait(); err != nil || strings.Count(log.String(), "state=ended") != 2 {
		t.Errorf("it ended with %v, having said\n%s", err, log.String())
	}
}
