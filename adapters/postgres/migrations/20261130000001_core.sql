-- migrate:up
SET lock_timeout = '5s';

CREATE EXTENSION IF NOT EXISTS pg_trgm;

CREATE TABLE users (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name        text NOT NULL CHECK (name <> ''),
    role        text NOT NULL DEFAULT 'user' CHECK (role IN ('user', 'operator', 'admin')),
    locale      text NOT NULL DEFAULT 'en',
    timezone    text NOT NULL DEFAULT 'Asia/Shanghai',
    created_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT users_name_unique UNIQUE (name)
);

CREATE TABLE api_keys (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id     uuid NOT NULL REFERENCES users,
    prefix      text NOT NULL,
    hash        bytea NOT NULL,               -- SHA-256 of the whole key; the key has 256 random bits
    scopes      text[] NOT NULL,
    loopback_only boolean NOT NULL DEFAULT false,
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz,
    revoked_at  timestamptz,
    CONSTRAINT api_keys_hash_unique UNIQUE (hash)
);
CREATE INDEX api_keys_user_id_idx ON api_keys (user_id);

CREATE TABLE sessions (
    id          uuid PRIMARY KEY,
    owner_id    uuid NOT NULL REFERENCES users,
    thread_id   text NOT NULL,
    type        text NOT NULL DEFAULT 'chat' CHECK (type IN ('chat', 'automation')),
    title       text,
    profile     text,
    last_seq    bigint NOT NULL DEFAULT 0,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT sessions_owner_thread_unique UNIQUE (owner_id, thread_id)
);
CREATE INDEX sessions_owner_updated_idx ON sessions (owner_id, updated_at DESC, id);

CREATE TABLE runs (
    id              uuid PRIMARY KEY,
    owner_id        uuid NOT NULL REFERENCES users,
    session_id      uuid NOT NULL REFERENCES sessions,
    run_id          text NOT NULL,            -- the id the client chose
    origin          text NOT NULL DEFAULT 'chat' CHECK (origin IN ('chat', 'automation')),
    status          text NOT NULL DEFAULT 'accepted'
                    CHECK (status IN ('accepted', 'running', 'completed', 'failed', 'interrupted')),
    request         jsonb NOT NULL,           -- {profile, tools, context}: what the caller asked for
    request_digest  bytea NOT NULL,
    profile_name    text,
    executor        text,
    profile         jsonb,                    -- frozen when the run begins
    last_seq        bigint NOT NULL DEFAULT 0, -- of run_events
    first_message_seq bigint NOT NULL,        -- the first message this run added to its session
    error_code      text,
    error_message   text,
    limit_hit       text,
    input_tokens    bigint NOT NULL DEFAULT 0,
    output_tokens   bigint NOT NULL DEFAULT 0,
    cached_tokens   bigint NOT NULL DEFAULT 0,
    cost_micro_usd  bigint NOT NULL DEFAULT 0,
    turns           integer NOT NULL DEFAULT 0, -- completed model calls
    open_turn_seq   bigint,                   -- seq of the turn_started in hand: a fence against late attempts
    open_attempt    integer NOT NULL DEFAULT 0, -- how often the turn in hand was started
    created_at      timestamptz NOT NULL DEFAULT now(),
    started_at      timestamptz,
    finished_at     timestamptz,
    checked_at      timestamptz,              -- when the engine was last asked about an active run
    CONSTRAINT runs_owner_run_unique UNIQUE (owner_id, run_id)
);
-- One active run per session is decided here, whatever the API or the engine believe.
CREATE UNIQUE INDEX runs_one_active_per_session ON runs (session_id)
    WHERE status IN ('accepted', 'running');
CREATE INDEX runs_owner_created_idx ON runs (owner_id, created_at DESC, id);
CREATE INDEX runs_session_created_idx ON runs (session_id, created_at DESC);
CREATE INDEX runs_active_idx ON runs (created_at) WHERE status IN ('accepted', 'running');

CREATE TABLE messages (
    session_id       uuid NOT NULL REFERENCES sessions,
    seq              bigint NOT NULL,         -- dense per session, from 1
    id               text NOT NULL,
    owner_id         uuid NOT NULL,
    run_id           uuid NOT NULL REFERENCES runs,
    role             text NOT NULL CHECK (role IN ('user', 'assistant', 'tool', 'system')),
    content          text NOT NULL,
    tool_calls       jsonb,
    tool_call_id     text,
    hidden_from_user boolean NOT NULL DEFAULT false,
    metadata         jsonb NOT NULL DEFAULT '{}',
    created_at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, seq),
    CONSTRAINT messages_session_id_unique UNIQUE (session_id, id)
);
CREATE INDEX messages_user_idx ON messages (session_id, seq DESC) INCLUDE (hidden_from_user)
    WHERE role = 'user';
CREATE INDEX messages_run_idx ON messages (run_id);

CREATE TABLE run_events (
    run_id      uuid NOT NULL REFERENCES runs,
    seq         bigint NOT NULL,              -- dense per run, from 1
    kind        text NOT NULL,
    payload     jsonb NOT NULL,               -- without the text that the message row holds
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, seq)
);

CREATE TABLE model_calls (
    run_id        uuid NOT NULL REFERENCES runs,
    turn          integer NOT NULL,
    attempt       integer NOT NULL,
    owner_id      uuid NOT NULL,
    model         text NOT NULL,
    finish_reason text NOT NULL,
    input_tokens  integer NOT NULL,
    output_tokens integer NOT NULL,
    cached_tokens integer NOT NULL,
    cost_micro_usd bigint NOT NULL DEFAULT 0,
    seen          jsonb NOT NULL,             -- what the model saw: message and fact ids, digests, counts
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, turn, attempt)
);

CREATE TABLE audit (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          timestamptz NOT NULL DEFAULT now(),
    owner_id    uuid NOT NULL,
    actor_id    uuid,                         -- the user behind it; NULL = the system
    kind        text NOT NULL,
    run_id      uuid,
    session_id  uuid,
    tool        text,
    origin      text,
    executor    text,
    profile     text,
    dedupe_key  text,                         -- a step that runs twice leaves one row
    detail      jsonb NOT NULL DEFAULT '{}',
    CONSTRAINT audit_dedupe_unique UNIQUE (dedupe_key)
);
CREATE INDEX audit_owner_idx ON audit (owner_id, id DESC);
CREATE INDEX audit_run_idx ON audit (run_id, id) WHERE run_id IS NOT NULL;

CREATE TABLE facts (
    id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    owner_id      uuid NOT NULL REFERENCES users,
    scope         text NOT NULL DEFAULT 'global',
    key           text NOT NULL CHECK (key <> ''),
    value         text NOT NULL,
    tags          text[] NOT NULL DEFAULT '{}',
    confidence    real NOT NULL DEFAULT 1 CHECK (confidence BETWEEN 0 AND 1),
    evidence      text[] NOT NULL DEFAULT '{}', -- message ids
    source_run_id uuid REFERENCES runs,
    write_key     text,                       -- idempotency key of the call that wrote it
    created_at    timestamptz NOT NULL DEFAULT now(),
    superseded_by uuid REFERENCES facts,
    superseded_at timestamptz,
    forgotten_at  timestamptz,
    CONSTRAINT facts_write_key_unique UNIQUE (write_key)
);
CREATE UNIQUE INDEX facts_current_key ON facts (owner_id, scope, key)
    WHERE superseded_at IS NULL AND forgotten_at IS NULL;
CREATE INDEX facts_owner_idx ON facts (owner_id, created_at DESC)
    WHERE superseded_at IS NULL AND forgotten_at IS NULL;

CREATE TABLE rollouts (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    priority    integer NOT NULL DEFAULT 100, -- lowest first
    owner_id    uuid,
    task_type   text,
    percentage  real NOT NULL CHECK (percentage BETWEEN 0 AND 100),
    profile     text NOT NULL,
    created_by  uuid,
    created_at  timestamptz NOT NULL DEFAULT now()
);

-- migrate:down
