-- migrate:up
SET lock_timeout = '5s';

CREATE EXTENSION IF NOT EXISTS vector;

ALTER TABLE facts
    ADD COLUMN stated_at timestamptz,        -- when the newest evidence was said
    ADD COLUMN forgotten_through timestamptz, -- what was said up to here stays forgotten
    ADD COLUMN tag_words text[],             -- how words find it; NULL: not worked out yet
    ADD COLUMN key_words text[],
    ADD COLUMN value_words text[],
    ADD COLUMN embedding vector,             -- its size is the model's
    ADD COLUMN embedding_model text;         -- vectors of two models can't be compared
UPDATE facts SET stated_at = created_at, forgotten_through = forgotten_at;
ALTER TABLE facts
    ALTER COLUMN stated_at SET DEFAULT now(),
    ALTER COLUMN stated_at SET NOT NULL;

-- A message that says so. It exists, and the database sees to it.
CREATE TABLE fact_evidence (
    fact_id    uuid NOT NULL REFERENCES facts ON DELETE CASCADE,
    session_id uuid NOT NULL,
    message_id text NOT NULL,
    place      smallint NOT NULL,
    owner_id   uuid NOT NULL REFERENCES users,
    PRIMARY KEY (fact_id, session_id, message_id),
    FOREIGN KEY (session_id, message_id) REFERENCES messages (session_id, id)
);
CREATE INDEX fact_evidence_message_idx ON fact_evidence (session_id, message_id);
INSERT INTO fact_evidence (fact_id, session_id, message_id, place, owner_id)
SELECT f.id, r.session_id, e.id, e.place, f.owner_id
FROM facts f
JOIN runs r ON r.id = f.source_run_id
CROSS JOIN LATERAL unnest(f.evidence) WITH ORDINALITY AS e(id, place)
JOIN messages m ON m.session_id = r.session_id AND m.id = e.id
ON CONFLICT DO NOTHING;
ALTER TABLE facts DROP COLUMN evidence;

-- What was proposed and not believed.
CREATE TABLE fact_candidates (
    id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    owner_id      uuid NOT NULL REFERENCES users,
    source_run_id uuid REFERENCES runs,
    write_key     text NOT NULL,
    scope         text NOT NULL,
    key           text NOT NULL,
    value         text NOT NULL,
    confidence    real NOT NULL,
    reason        text NOT NULL,             -- confidence | evidence | instruction | outdated
    created_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT fact_candidates_write_key_unique UNIQUE (write_key)
);
CREATE INDEX fact_candidates_owner_idx ON fact_candidates (owner_id, created_at DESC, id DESC);

-- What was purged leaves a digest of its key, so that an old message can't bring it back.
CREATE TABLE fact_purges (
    owner_id   uuid NOT NULL REFERENCES users,
    scope      text NOT NULL,
    key_digest bytea NOT NULL,
    purged_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (owner_id, scope, key_digest)
);

-- Whoever may talk to the agent could ask it for all of this, and have it changed.
UPDATE api_keys SET scopes = scopes || '{memory:read,memory:write}'
WHERE scopes @> '{runs:read,runs:write}' AND NOT scopes && '{memory:read,memory:write}';

-- migrate:down
