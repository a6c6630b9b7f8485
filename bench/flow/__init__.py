"""Flow control compared with groupings and fixed windows. Also bad records, the controller alone, and `max_spout_pending="auto"`."""
