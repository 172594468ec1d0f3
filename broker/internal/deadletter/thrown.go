package deadletter

import "strings"

// Thrown is the class of the exception whose stack a Java trace is of: that of
// the first which is not one that Spring wraps what a listener throws in. It is
// empty for what is no trace.
func Thrown(trace string) string {
	class := ""
	for line := range strings.Lines(trace) {
		cause, is := strings.CutPrefix(line, "Caused by: ")
		if class != "" && !is {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimSpace(cause), ":")
		if name == "" || strings.ContainsAny(name, " \t") {
			break
		}
		if class = name; !IsWrapper(class) {
			break
		}
	}
	return class
}

// IsWrapper reports whether class is one that Spring wraps what a listener
// throws in.
func IsWrapper(class string) bool {
	return strings.HasPrefix(class, "org.springframework.") && strings.HasSuffix(class, ".ListenerExecutionFailedException")
}
