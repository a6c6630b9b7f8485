"""What flow control reaches, beside fixed windows and other groupings."""
