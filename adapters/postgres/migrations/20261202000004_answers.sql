-- migrate:up
SET lock_timeout = '5s';

ALTER TABLE checkpoints ADD COLUMN answer_id uuid REFERENCES checkpoint_answers; -- that counted

-- migrate:down
