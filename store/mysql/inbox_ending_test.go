package mysql

import "testing"

func TestStatementsThatCommitAreToldFromThoseThatDoNot(t *testing.T) {
	for query, want := range map[string]ending{
		"INSERT INTO t VALUES (1)":                          endsNothing,
		"select 1":                                          endsNothing,
		"(SELECT 1) UNION (SELECT 2)":                       endsNothing,
		"UPDATE t SET x = 'CREATE TABLE y'":                 endsNothing,
		"/* DROP TABLE t */ DELETE FROM t":                  endsNothing,
		"-- COMMIT\nDELETE FROM t":                          endsNothing,
		"CREATE TEMPORARY TABLE x (id INT)":                 endsNothing,
		"create or replace temporary table x (id INT)":      endsNothing,
		"DROP TEMPORARY TABLE x":                            endsNothing,
		"SAVEPOINT a":                                       endsNothing,
		"ROLLBACK TO a":                                     endsNothing,
		"ROLLBACK WORK TO SAVEPOINT a":                      endsNothing,
		"RELEASE SAVEPOINT a":                               endsNothing,
		"ANALYZE FORMAT=JSON SELECT 1":                      endsNothing,
		"LOAD DATA INFILE 'x' INTO TABLE t":                 endsNothing,
		"CREATE TABLE x (id INT)":                           endsAll,
		"  \n\tcreate index i ON x (id)":                    endsAll,
		"/*!50001 CREATE VIEW v AS SELECT 1 */":             endsAll,
		"/*M!100100 DROP TABLE v */":                        endsAll,
		"/* why */ -- and\n# how\n ALTER TABLE x ADD y INT": endsAll,
		"TRUNCATE x":                                        endsAll,
		"RENAME TABLE a TO b":                               endsAll,
		"GRANT ALL ON *.* TO x":                             endsAll,
		"LOCK TABLES t WRITE":                               endsAll,
		"COMMIT":                                            endsAll,
		"rollback":                                          endsAll,
		"BEGIN":                                             endsAll,
		"START TRANSACTION":                                 endsAll,
		"XA START 'x'":                                      endsAll,
		"SET autocommit = 1":                                endsAll,
		"SET @@session.AutoCommit = 1":                      endsAll,
		"ANALYZE TABLE t":                                   endsAll,
		"OPTIMIZE TABLE t":                                  endsAll,
		"SET @x = 1":                                        mayEnd,
		"CALL p()":                                          mayEnd,
		"EXECUTE s":                                         mayEnd,
	} {
		if got := endingOf(query); got != want {
			t.Errorf("%q is %d, want %d", query, got, want)
		}
	}
}
