-- From here on bindings may be in files beside the database (location.N.log), of which a program that knows only
-- version 1 has no idea: it would serve without them, and what it writes would later be overwritten.

-- Made again at every start, with a column more (watch.sql).
DROP TRIGGER IF EXISTS subscriber_inserted;
DROP TRIGGER IF EXISTS subscriber_deleted;
DROP TRIGGER IF EXISTS subscriber_updated;
DROP TRIGGER IF EXISTS subscriber_replaced_by_insert;
DROP TRIGGER IF EXISTS subscriber_replaced_by_update;
DROP TABLE IF EXISTS subscriber_change;
