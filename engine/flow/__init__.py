"""Adaptive flow control: a window for each bolt task, after TCP's, and a position that is done as far as it says (FC-1 to FC-8)."""
