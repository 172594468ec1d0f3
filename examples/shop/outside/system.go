package outside

import (
	"fmt"
	"slices"
	"strings"
)

// The outside systems, as roles, files and commands call them.
const (
	ProviderSystem = "provider" // takes money and gives it back
	CouponSystem   = "coupons"
	CarrierSystem  = "carrier"
)

// Systems returns the names of all outside systems.
func Systems() []string { return []string{ProviderSystem, CouponSystem, CarrierSystem} }

// CheckSystem returns an error that lists the right names unless name is one.
func CheckSystem(name string) error {
	if slices.Contains(Systems(), name) {
		return nil
	}
	return fmt.Errorf("unknown outside system %q; the systems are %s", name, strings.Join(Systems(), ", "))
}
