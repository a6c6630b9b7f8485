"""Dead letters, which are records that were given up.

`dead_letter` is the format. `dead_letter_writer` writes letters, `dead_letter_list` reads them, and `replay` sends them back.
"""
