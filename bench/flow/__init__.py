"""What flow control reaches beside fixed windows and other groupings, and `max_spout_pending="auto"` beside fixed values."""
