-- What changed in the subscriber table, for a running server that keeps it in memory. Made again at
-- every start, because restoring a dump of the subscriber table drops its triggers.

CREATE TABLE IF NOT EXISTS subscriber_change (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  username VARCHAR(128) NOT NULL,
  domain   VARCHAR(253) NOT NULL,
  -- 1: the bindings were removed with the subscriber, which may have been made anew since.
  unbound  INTEGER NOT NULL DEFAULT 0
);

CREATE TRIGGER IF NOT EXISTS subscriber_inserted AFTER INSERT ON subscriber BEGIN
  INSERT INTO subscriber_change (username, domain) VALUES (NEW.username, NEW.domain);
END;

CREATE TRIGGER IF NOT EXISTS subscriber_deleted AFTER DELETE ON subscriber BEGIN
  INSERT INTO subscriber_change (username, domain) VALUES (OLD.username, OLD.domain);
END;

CREATE TRIGGER IF NOT EXISTS subscriber_updated AFTER UPDATE ON subscriber BEGIN
  INSERT INTO subscriber_change (username, domain) VALUES (OLD.username, OLD.domain);
  INSERT INTO subscriber_change (username, domain) SELECT NEW.username, NEW.domain
    WHERE NEW.username IS NOT OLD.username OR NEW.domain IS NOT OLD.domain;
END;

-- REPLACE removes the row that had the same id without firing the DELETE trigger.
CREATE TRIGGER IF NOT EXISTS subscriber_replaced_by_insert BEFORE INSERT ON subscriber BEGIN
  INSERT INTO subscriber_change (username, domain)
    SELECT username, domain FROM subscriber WHERE id = NEW.id;
END;

CREATE TRIGGER IF NOT EXISTS subscriber_replaced_by_update BEFORE UPDATE OF id ON subscriber
WHEN NEW.id IS NOT OLD.id BEGIN
  INSERT INTO subscriber_change (username, domain)
    SELECT username, domain FROM subscriber WHERE id = NEW.id;
END;

-- Rules of users are read again with the user.
CREATE TRIGGER IF NOT EXISTS user_rules_inserted AFTER INSERT ON user_rules BEGIN
  INSERT INTO subscriber_change (username, domain) VALUES (NEW.username, NEW.domain);
END;

CREATE TRIGGER IF NOT EXISTS user_rules_deleted AFTER DELETE ON user_rules BEGIN
  INSERT INTO subscriber_change (username, domain) VALUES (OLD.username, OLD.domain);
END;

CREATE TRIGGER IF NOT EXISTS user_rules_updated AFTER UPDATE ON user_rules BEGIN
  INSERT INTO subscriber_change (username, domain) VALUES (OLD.username, OLD.domain);
  INSERT INTO subscriber_change (username, domain) SELECT NEW.username, NEW.domain
    WHERE NEW.username IS NOT OLD.username OR NEW.domain IS NOT OLD.domain;
END;

-- Bounds the log while no server runs. A server that finds a gap reads the whole table again.
CREATE TRIGGER IF NOT EXISTS subscriber_change_bounded AFTER INSERT ON subscriber_change
WHEN NEW.id % 1000 = 0 BEGIN
  DELETE FROM subscriber_change WHERE id <= NEW.id - 500000;
END;

CREATE TRIGGER IF NOT EXISTS user_class_inserted AFTER INSERT ON user_class BEGIN
  INSERT INTO subscriber_change (username, domain) VALUES (NEW.username, NEW.domain);
END;

CREATE TRIGGER IF NOT EXISTS user_class_deleted AFTER DELETE ON user_class BEGIN
  INSERT INTO subscriber_change (username, domain) VALUES (OLD.username, OLD.domain);
END;

CREATE TRIGGER IF NOT EXISTS user_class_updated AFTER UPDATE ON user_class BEGIN
  INSERT INTO subscriber_change (username, domain) VALUES (OLD.username, OLD.domain);
  INSERT INTO subscriber_change (username, domain) SELECT NEW.username, NEW.domain
    WHERE NEW.username IS NOT OLD.username OR NEW.domain IS NOT OLD.domain;
END;
