-- migrate:up
SET lock_timeout = '5s';

-- However a key is spelled, it is one fact. NULL: written before, and found by its spelling.
ALTER TABLE facts ADD COLUMN key_digest bytea;
CREATE UNIQUE INDEX facts_current_digest ON facts (owner_id, scope, key_digest)
    WHERE superseded_at IS NULL AND forgotten_at IS NULL AND key_digest IS NOT NULL;
CREATE INDEX facts_digest_idx ON facts (owner_id, scope, key_digest);

-- Messages on which a purged fact rested. Nothing new is learnt from them.
CREATE TABLE purged_evidence (
    session_id uuid NOT NULL,
    message_id text NOT NULL,
    owner_id   uuid NOT NULL REFERENCES users,
    PRIMARY KEY (session_id, message_id),
    FOREIGN KEY (session_id, message_id) REFERENCES messages (session_id, id) ON DELETE CASCADE
);
CREATE INDEX purged_evidence_owner_idx ON purged_evidence (owner_id);

-- migrate:down
