-- migrate:up
SET lock_timeout = '5s';

ALTER TABLE sessions
    ADD COLUMN forked_from uuid REFERENCES sessions,
    ADD COLUMN forked_through bigint NOT NULL DEFAULT 0; -- messages up to here were read elsewhere

-- migrate:down
