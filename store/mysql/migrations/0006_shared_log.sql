-- +goose NO TRANSACTION
-- +goose Up
-- The consume log of another owner that consumers of Settle share, where there
-- is one: what was decided about it.
CREATE TABLE IF NOT EXISTS settle_shared_log (
  one     INT      NOT NULL PRIMARY KEY CHECK (one = 1),
  decided LONGTEXT NOT NULL -- JSON: table, columns, zone, words
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE settle_exact;

-- +goose Down
DROP TABLE IF EXISTS settle_shared_log;
