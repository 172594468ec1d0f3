package shop

import (
	"fmt"
	"net/url"
	"path/filepath"
)

// databaseURL is where a service of the shop in dir keeps its database.
func databaseURL(dir, service string) (string, error) {
	path, err := filepath.Abs(filepath.Join(dir, service+".db"))
	if err != nil {
		return "", fmt.Errorf("find directory %s: %w", dir, err)
	}
	return (&url.URL{Scheme: "sqlite", Path: path}).String(), nil
}

func brokerDir(dir string) string { return filepath.Join(dir, "broker") }
