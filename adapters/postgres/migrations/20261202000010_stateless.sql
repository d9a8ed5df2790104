-- migrate:up
SET lock_timeout = '5s';

ALTER TABLE sessions
    DROP CONSTRAINT sessions_type_check,
    ADD CONSTRAINT sessions_type_check CHECK (type IN ('chat', 'automation', 'stateless'));
CREATE INDEX sessions_stateless_idx ON sessions (updated_at) WHERE type = 'stateless';

-- migrate:down
