"""An engine and a pipeline behind it, both killed again and again, each sink judged in the end: begin with `flow`, then `rounds`."""
