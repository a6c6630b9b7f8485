"""Writes, lists and replays dead letters, which are records that were given up.

`dead_letter` defines the format. `dead_letter_writer` writes letters, `dead_letter_list` reads letters, and `replay` sends letters back.
"""
