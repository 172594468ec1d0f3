package outside

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// ErrNotServing means that a system has not said where it serves.
var ErrNotServing = errors.New("it does not run")

// LedgerPath is the ledger of a system of the shop in dir.
func LedgerPath(dir, system string) string { return filepath.Join(dir, "outside", system+".db") }

// AddressPath is the file in which a system of the shop in dir says where it
// serves: HOST:PORT.
func AddressPath(dir, system string) string { return filepath.Join(dir, "outside", system+".addr") }

// Address returns where a system of the shop in dir serves, as it has written
// it down; ErrNotServing if it has not. A system that was killed leaves its
// address behind.
func Address(dir, system string) (string, error) {
	b, err := os.ReadFile(AddressPath(dir, system))
	if errors.Is(err, fs.ErrNotExist) {
		return "", ErrNotServing
	}
	if err != nil {
		return "", fmt.Errorf("find address: %w", err)
	}
	addr := strings.TrimSpace(string(b))
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return "", fmt.Errorf("find address: %s: %w", AddressPath(dir, system), err)
	}
	return addr, nil
}

// announce writes down where a system serves, whole or not at all.
func announce(dir, system, addr string) error {
	path := AddressPath(dir, system)
	if err := os.WriteFile(path+".new", []byte(addr+"\n"), 0o600); err != nil {
		return fmt.Errorf("write address: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write address: %w", err)
	}
	return nil
}

// withdraw removes an address that is not served any more, unless another
// process has written its own meanwhile.
func withdraw(dir, system, addr string) error {
	if now, err := Address(dir, system); err != nil || (addr != "" && now != addr) {
		return nil // there is none, or it is another's
	}
	if err := os.Remove(AddressPath(dir, system)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove address: %w", err)
	}
	return nil
}
