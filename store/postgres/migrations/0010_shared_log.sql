-- +goose Up
-- The consume log of another owner that consumers of Settle share, where there
-- is one: what was decided about it.
CREATE TABLE settle_shared_log (
  one     boolean PRIMARY KEY DEFAULT true CHECK (one),
  decided json    NOT NULL
);

-- +goose Down
DROP TABLE settle_shared_log;
