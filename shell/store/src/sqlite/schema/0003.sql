-- What users have set for calls to them. A table of its own: one with the columns of other servers may take the place
-- of the subscriber table.
CREATE TABLE IF NOT EXISTS user_rules (
  username            VARCHAR(128) NOT NULL,
  domain              VARCHAR(253) NOT NULL COLLATE NOCASE,
  -- A number, a user of the domain, user@domain, or a URI; empty: no forwarding.
  forward_always      VARCHAR(128) NOT NULL DEFAULT '',
  forward_busy        VARCHAR(128) NOT NULL DEFAULT '',
  forward_no_answer   VARCHAR(128) NOT NULL DEFAULT '',
  forward_unreachable VARCHAR(128) NOT NULL DEFAULT '',
  -- At most 4 of the same, with spaces between, that ring at the same time.
  also_ring           VARCHAR(515) NOT NULL DEFAULT '',
  -- Seconds; 0: as the server has it.
  ring_time           INTEGER NOT NULL DEFAULT 0,
  do_not_disturb      INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (username, domain)
) WITHOUT ROWID;
