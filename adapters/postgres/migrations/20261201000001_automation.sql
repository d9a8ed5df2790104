-- migrate:up
SET lock_timeout = '5s';

CREATE TABLE automation_jobs (
    id                uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    owner_id          uuid NOT NULL REFERENCES users,
    title             text NOT NULL CHECK (title <> ''),
    schedule_type     text NOT NULL CHECK (schedule_type IN ('once', 'daily', 'weekly', 'cron')),
    run_at            text NOT NULL,          -- HH:MM; an instant for once; five fields for cron
    weekday           smallint CHECK (weekday BETWEEN 1 AND 7), -- ISO, weekly only
    timezone          text NOT NULL,
    status            text NOT NULL DEFAULT 'active'
                      CHECK (status IN ('active', 'paused', 'completed', 'deleted')),
    config            jsonb NOT NULL,         -- {prompt, tools}
    execution_profile jsonb NOT NULL,         -- a profile's name, or a profile
    builtin           text,                   -- 'daily_memory' for the job every user has
    expected_from     timestamptz NOT NULL DEFAULT now(), -- slots from here on are owed
    next_run_at       timestamptz,            -- mirrors of what the engine knows, for lists
    last_run_at       timestamptz,
    missed            integer NOT NULL DEFAULT 0,  -- owed slots without a finished run, last counted
    failed_in_a_row   integer NOT NULL DEFAULT 0,
    created_at        timestamptz NOT NULL DEFAULT now(),
    updated_at        timestamptz NOT NULL DEFAULT now(),
    CHECK ((weekday IS NOT NULL) = (schedule_type = 'weekly'))
);
CREATE INDEX automation_jobs_owner_idx ON automation_jobs (owner_id, created_at DESC, id DESC);
CREATE UNIQUE INDEX automation_jobs_builtin_unique ON automation_jobs (owner_id, builtin)
    WHERE builtin IS NOT NULL AND status <> 'deleted';

-- A firing claims its slot here; whoever comes second finds it taken.
CREATE TABLE job_slots (
    job_id          uuid NOT NULL REFERENCES automation_jobs,
    slot            text NOT NULL,            -- local date; for once and cron the instant
    owner_id        uuid NOT NULL REFERENCES users,
    scheduled_at    timestamptz NOT NULL,     -- of the firing, before jitter
    workflow_id     text NOT NULL,
    workflow_run_id text NOT NULL,            -- of the execution that holds the claim
    status          text NOT NULL DEFAULT 'running'
                    CHECK (status IN ('running', 'completed', 'nothing_new', 'failed')),
    attempt         integer NOT NULL DEFAULT 1,
    reopened        boolean NOT NULL DEFAULT false, -- somebody asked for this slot again
    snapshot        jsonb NOT NULL,           -- config and profile as they were at the claim
    error_code      text,
    error_message   text,
    started_at      timestamptz NOT NULL DEFAULT now(),
    finished_at     timestamptz,
    PRIMARY KEY (job_id, slot)
);
CREATE INDEX job_slots_owner_idx ON job_slots (owner_id, started_at DESC);
CREATE INDEX job_slots_started_idx ON job_slots (started_at);
CREATE INDEX job_slots_running_idx ON job_slots (started_at) WHERE status = 'running';

-- What one run of a slot is given to read. Written before the run, so that it is cut once.
CREATE TABLE job_windows (
    job_id        uuid NOT NULL,
    slot          text NOT NULL,
    attempt       integer NOT NULL,
    number        integer NOT NULL,           -- dense per attempt, from 1
    owner_id      uuid NOT NULL REFERENCES users,
    run_key       uuid NOT NULL,
    parts         jsonb NOT NULL,             -- [{session, first_seq, last_seq}], oldest first
    user_messages integer NOT NULL,
    status        text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'done', 'failed')),
    error_code    text,
    error_message text,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (job_id, slot, attempt, number),
    FOREIGN KEY (job_id, slot) REFERENCES job_slots
);

-- How far a job has read each session. Sequence numbers of a session are dense and committed in
-- order, which instants are not: nothing that commits late is passed over.
CREATE TABLE job_watermarks (
    job_id     uuid NOT NULL REFERENCES automation_jobs,
    session_id uuid NOT NULL REFERENCES sessions,
    owner_id   uuid NOT NULL REFERENCES users,
    seq        bigint NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (job_id, session_id)
);

-- Who may read and write runs may do so with jobs, as new keys may.
UPDATE api_keys SET scopes = scopes || '{jobs:read,jobs:write}'
WHERE scopes @> '{runs:read,runs:write}' AND NOT scopes && '{jobs:read,jobs:write}';

-- migrate:down
