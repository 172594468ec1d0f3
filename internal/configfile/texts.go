package configfile

// Texts is a text, or a list of them.
type Texts []string

// UnmarshalYAML reads either.
func (t *Texts) UnmarshalYAML(decode func(any) error) error {
	var one string
	if err := decode(&one); err == nil {
		*t = Texts{one}
		return nil
	}
	return decode((*[]string)(t))
}
