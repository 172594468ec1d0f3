package adopt

import (
	"cmp"
	"time"
)

// ClockSkew is how far ahead an application's clock may be.
const ClockSkew = time.Minute

// Zone is that which was said, or decided before; empty for none.
func (l *Look) Zone() string {
	if l.Before != nil {
		return cmp.Or(l.Config.Zone, l.Before.Zone)
	}
	return l.Config.Zone
}

// Unproven says that no row shows whether the zone is right.
func (l *Look) Unproven() {
	l.Note("there is no row yet whose time could show that the zone is %s", l.Outbox.Zone)
}

// Newest refuses a zone by which the newest row is hours ahead of the clock.
func (l *Look) Newest(ahead time.Duration) {
	quarter := ahead.Round(15 * time.Minute)
	switch {
	case ahead > ClockSkew && (ahead-quarter).Abs() < 5*time.Minute:
		l.Refuse("the newest row is %s ahead of the clock if its times are of the zone %s; give the zone of the application that writes them, for instance --zone Asia/Shanghai", ahead.Round(time.Second), l.Outbox.Zone)
	case ahead > ClockSkew:
		l.Note("the newest row is %s ahead of the clock", ahead.Round(time.Second))
	case quarter <= -time.Hour && quarter%(30*time.Minute) == 0 && (ahead-quarter).Abs() < ClockSkew:
		l.Note("the newest row is %s old if its times are of the zone %s; if it was written just now, the zone is another", -ahead.Round(time.Second), l.Outbox.Zone)
	}
}
