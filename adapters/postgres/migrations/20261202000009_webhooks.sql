-- migrate:up
SET lock_timeout = '5s';

-- Who is told of a run's end. Written with its acceptance; sent by a workflow of its own.
CREATE TABLE webhooks (
    run_key      uuid PRIMARY KEY REFERENCES runs ON DELETE CASCADE,
    owner_id     uuid NOT NULL REFERENCES users,
    url          text NOT NULL,
    status       text NOT NULL DEFAULT 'pending'
                 CHECK (status IN ('pending', 'delivered', 'failed')),
    attempts     integer NOT NULL DEFAULT 0,
    last_error   text,
    started_at   timestamptz,              -- when somebody began to deliver it
    delivered_at timestamptz,
    created_at   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX webhooks_pending_idx ON webhooks (created_at) WHERE status = 'pending';

-- migrate:down
