"""EXPLAIN and EXPLAIN ANALYZE for data movement."""
