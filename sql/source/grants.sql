-- What a pipeline's MySQL user needs, and why. Nothing here lets it write.
-- Replace the account and the database by yours; the embedded stack does the same by itself.

CREATE USER IF NOT EXISTS 'ingest'@'%' IDENTIFIED BY RANDOM PASSWORD REQUIRE SSL;

-- The snapshot, the audit, and finding out which tables there are. A table without it is invisible.
GRANT SELECT ON shop.* TO 'ingest'@'%';

-- The snapshot takes a global read lock for the moment in which it notes the binlog position.
GRANT RELOAD, LOCK TABLES ON *.* TO 'ingest'@'%';

-- Databases that a table pattern may name.
GRANT SHOW DATABASES ON *.* TO 'ingest'@'%';

-- Reading the binlog, and asking where it ends.
GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'ingest'@'%';
