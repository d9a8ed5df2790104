-- migrate:up
SET lock_timeout = '5s';

-- What a client that sends whole conversations and no session id is recognised by.
ALTER TABLE sessions ADD COLUMN fingerprint bytea;
CREATE INDEX sessions_fingerprint_idx ON sessions (owner_id, fingerprint)
    WHERE fingerprint IS NOT NULL;

-- migrate:down
