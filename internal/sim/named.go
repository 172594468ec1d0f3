package sim

import (
	"fmt"
	"strings"
)

// named returns the name of a command's or input's type, without its package.
func named(v any) string {
	name := fmt.Sprintf("%T", v)
	return name[strings.LastIndexByte(name, '.')+1:]
}
