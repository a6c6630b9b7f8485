"""Members of a group that are killed, paused and joined, and a judge of their journals. Begin with `member` and `judge`."""
