-- The names of tables and columns are those that operators of Kamailio and OpenSIPS know.

CREATE TABLE version (
  table_name    VARCHAR(32) NOT NULL PRIMARY KEY,
  table_version INTEGER NOT NULL DEFAULT 0
);
-- The versions whose columns these tables follow (Kamailio 5 and 6).
INSERT INTO version VALUES ('subscriber', 7), ('location', 9);

-- Who may register and call. The hashes cover "username:domain:password" (RFC 7616 section 3.4.2):
-- the realm of a user is the domain.
CREATE TABLE subscriber (
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  username       VARCHAR(128) NOT NULL,
  domain         VARCHAR(253) NOT NULL COLLATE NOCASE,
  -- Kept empty: no clear password is stored. There because tools expect the column.
  password       VARCHAR(128) NOT NULL DEFAULT '',
  ha1            VARCHAR(32) NOT NULL DEFAULT '',
  -- As ha1 with "username@domain" in place of the user name, for phones that send that.
  ha1b           VARCHAR(32) NOT NULL DEFAULT '',
  ha1_sha256     VARCHAR(64) NOT NULL DEFAULT '',
  ha1_sha512t256 VARCHAR(64) NOT NULL DEFAULT '',
  ha1b_sha256     VARCHAR(64) NOT NULL DEFAULT '',
  ha1b_sha512t256 VARCHAR(64) NOT NULL DEFAULT '',
  datetime_created  DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
  datetime_modified DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
  UNIQUE (username, domain)
);

-- Where users can be reached. expires and last_modified are seconds since 1970; see them with
-- datetime(expires, 'unixepoch'). One B-tree: the key is the row.
CREATE TABLE location (
  username      VARCHAR(128) NOT NULL,
  domain        VARCHAR(253) NOT NULL,
  contact       VARCHAR(512) NOT NULL,
  instance      VARCHAR(255) NOT NULL DEFAULT '',
  reg_id        INTEGER NOT NULL DEFAULT 0,
  received      VARCHAR(255) NOT NULL DEFAULT '',
  path          VARCHAR(1024) NOT NULL DEFAULT '',
  expires       INTEGER NOT NULL,
  q             REAL NOT NULL DEFAULT 1.0,
  callid        VARCHAR(255) NOT NULL,
  cseq          INTEGER NOT NULL,
  last_modified INTEGER NOT NULL,
  user_agent    VARCHAR(255) NOT NULL DEFAULT '',
  socket        VARCHAR(64) NOT NULL DEFAULT '',
  -- Contact header parameters beyond q, expires, +sip.instance and reg-id.
  params        VARCHAR(512) NOT NULL DEFAULT '',
  PRIMARY KEY (username, domain, contact, instance, reg_id)
) WITHOUT ROWID;
