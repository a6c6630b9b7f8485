"""Event time, windows and the typed flow."""
