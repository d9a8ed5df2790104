-- migrate:up
SET lock_timeout = '5s';

ALTER TABLE runs
    DROP CONSTRAINT runs_status_check,
    ADD CONSTRAINT runs_status_check CHECK (status IN
        ('queued', 'accepted', 'running', 'completed', 'failed', 'interrupted')),
    ADD COLUMN pending jsonb,                -- messages of a queued run: not of its session yet
    ADD COLUMN not_before timestamptz,
    ADD COLUMN idempotency_key text;
CREATE INDEX runs_queued_idx ON runs (session_id, created_at, id) WHERE status = 'queued';
CREATE UNIQUE INDEX runs_idempotency_unique ON runs (owner_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;

-- Somebody said stop before the run had arrived.
CREATE TABLE early_stops (
    run_key    uuid PRIMARY KEY,
    owner_id   uuid NOT NULL REFERENCES users,
    reason     text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- migrate:down
