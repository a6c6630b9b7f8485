"""Flow control beside groupings and fixed windows, bad records, the controller alone, and `max_spout_pending="auto"`."""
