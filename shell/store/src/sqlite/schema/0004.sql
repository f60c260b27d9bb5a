-- The classes of users that have one of their own ([[class]] in the configuration). A table of its own: one with the
-- columns of other servers may take the place of the subscriber table.
CREATE TABLE IF NOT EXISTS user_class (
  username VARCHAR(128) NOT NULL,
  domain   VARCHAR(253) NOT NULL COLLATE NOCASE,
  class    VARCHAR(31) NOT NULL,
  PRIMARY KEY (username, domain)
) WITHOUT ROWID;
