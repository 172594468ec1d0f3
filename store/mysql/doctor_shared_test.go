package mysql_test

import (
	"testing"

	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/store/storetest/adopted"
)

func TestDoctorFindsNothingInASharedConsumeLogThatBothKindsOfConsumersUse(t *testing.T) {
	t.Parallel()
	adopted.SoundLog(t, service)
}

func TestDoctorFindsWhatWasPlantedInASharedConsumeLogAndSaysWhatMendsIt(t *testing.T) {
	const alter = `ALTER TABLE t_message_consume_log `
	adopted.PlantedInLog(t, service, []adopted.Planted{
		{Check: "shared_log", Verdict: doctor.Bad, Plant: []string{alter + `MODIFY consumed_at TIMESTAMP NOT NULL`}, Found: "column consumed_at was datetime when the log was adopted and is timestamp"},
		{Check: "shared_log", Verdict: doctor.Bad, Plant: []string{alter + `MODIFY status VARCHAR(8) NOT NULL`}, Found: "is varchar(8)"},
		{Check: "shared_log", Verdict: doctor.Warn, Plant: []string{alter + `MODIFY message_id VARCHAR(128) NOT NULL`}, Found: "is varchar(128)"},
		{Check: "shared_log", Verdict: doctor.Bad, Plant: []string{alter + `MODIFY message_id VARCHAR(64) CHARACTER SET ascii NOT NULL`}, Found: "column message_id was utf8mb4 when the log was adopted and is ascii"},
		{Check: "shared_log", Verdict: doctor.Bad, Plant: []string{alter + `ADD COLUMN tenant VARCHAR(20) NOT NULL`}, Found: "column tenant must have a value", Mended: true},
		{Check: "shared_log", Verdict: doctor.Bad, Plant: []string{alter + `DROP INDEX uk_group_message`}, Found: "no unique index", Mended: true},
		{Check: "shared_log", Verdict: doctor.Bad, Plant: []string{alter + `ENGINE = MyISAM`}, Found: "it is MyISAM", Mended: true},
	})
}

func TestDoctorNoticesByTheEventsThemselvesThatASharedConsumeLogIsReadInAZoneTooFarEast(t *testing.T) {
	t.Parallel()
	adopted.TooFarEast(t, service)
}
