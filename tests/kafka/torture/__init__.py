"""Members of a group that are killed, paused, joined and ended, and the judge of what they did: begin with `member`, then `judge`."""
