-- migrate:up
SET lock_timeout = '5s';

-- A question to a person, or a notice. Its texts are here and nowhere in the engine.
CREATE TABLE checkpoints (
    id          uuid PRIMARY KEY,
    owner_id    uuid NOT NULL REFERENCES users,
    session_id  uuid NOT NULL REFERENCES sessions,
    run_id      uuid NOT NULL REFERENCES runs ON DELETE CASCADE,
    task_id     uuid,
    call_id     text,                       -- the tool call that waits for it
    tool        text,
    arguments   jsonb,                      -- of that call, as it is asked about
    arguments_digest bytea,                 -- an approval holds for exactly these
    batch       text NOT NULL,              -- what is asked together is one interaction
    scenario    text NOT NULL CHECK (scenario IN (
        'clarification', 'capability', 'high_risk', 'low_confidence', 'missing_input',
        'low_quality', 'retries_exhausted', 'cost', 'milestone')),
    severity    text NOT NULL CHECK (severity IN ('info', 'warning', 'critical')),
    blocking    boolean NOT NULL,
    title       text NOT NULL,
    body        text NOT NULL,
    context     jsonb NOT NULL DEFAULT '{}',
    actions     jsonb NOT NULL,             -- [{id, label, type}]
    secret_for  text,                       -- the answer is a secret that only this tool may read
    state       text NOT NULL CHECK (state IN (
        'queued', 'open', 'answered', 'expired', 'cancelled', 'noted')),
    on_timeout  text,
    deadline    timestamptz,                -- once it is open, if it has one
    reminders   integer NOT NULL DEFAULT 0, -- that were sent
    created_at  timestamptz NOT NULL DEFAULT now(),
    opened_at   timestamptz,
    answered_at timestamptz,                -- or expired, or cancelled
    answered_by uuid REFERENCES users,      -- NULL: nobody, or who has no account (the engine's CLI)
    via         text,                       -- agui | api | signal | timeout | run
    action      text,
    input       jsonb                       -- what came with it; never a secret
);
CREATE INDEX checkpoints_run_idx ON checkpoints (run_id, created_at, id);
CREATE INDEX checkpoints_inbox_idx ON checkpoints (owner_id, created_at DESC, id DESC);
CREATE INDEX checkpoints_open_idx ON checkpoints (owner_id, created_at DESC, id DESC)
    WHERE state IN ('open', 'queued');
CREATE INDEX checkpoints_decided_idx ON checkpoints (session_id, tool, arguments_digest)
    WHERE state = 'answered' AND tool IS NOT NULL;
-- At most one question per tool call.
CREATE UNIQUE INDEX checkpoints_call_unique ON checkpoints (call_id) WHERE call_id IS NOT NULL;

-- An answer on its way: the engine is told its id, never what it says.
CREATE TABLE checkpoint_answers (
    id            uuid PRIMARY KEY,
    checkpoint_id uuid NOT NULL REFERENCES checkpoints ON DELETE CASCADE,
    owner_id      uuid NOT NULL REFERENCES users,
    actor_id      uuid REFERENCES users,
    via           text NOT NULL,
    action        text NOT NULL,
    input         jsonb,
    secret_id     uuid,
    created_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX checkpoint_answers_checkpoint_idx ON checkpoint_answers (checkpoint_id);

-- What a person gave for one tool. Gone when the run has ended.
CREATE TABLE secrets (
    id         uuid PRIMARY KEY,
    owner_id   uuid NOT NULL REFERENCES users,
    run_id     uuid NOT NULL REFERENCES runs ON DELETE CASCADE,
    tool       text NOT NULL,
    name       text NOT NULL,
    value      text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX secrets_run_idx ON secrets (run_id, tool, name);

-- What an AG-UI client calls a run: the stretch between two of its requests. Number 0 is the run's
-- own id; each answer to its questions begins another.
CREATE TABLE run_segments (
    key        uuid PRIMARY KEY,            -- as a run's key, from owner and run_id
    run_key    uuid NOT NULL REFERENCES runs ON DELETE CASCADE,
    number     integer NOT NULL CHECK (number > 0),
    owner_id   uuid NOT NULL REFERENCES users,
    run_id     text NOT NULL,               -- the id the client chose
    digest     bytea,                       -- of the request; NULL: no client asked for it
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT run_segments_number_unique UNIQUE (run_key, number),
    CONSTRAINT run_segments_owner_run_unique UNIQUE (owner_id, run_id)
);

ALTER TABLE runs
    ADD COLUMN segment integer NOT NULL DEFAULT 0,     -- the number of the latest
    ADD COLUMN paused  boolean NOT NULL DEFAULT false; -- it waits for people and nothing else

-- migrate:down
