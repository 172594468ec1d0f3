package sim

import "reflect"

// named returns the name of a command's or input's type, without its package.
func named(v any) string { return reflect.TypeOf(v).Name() }
