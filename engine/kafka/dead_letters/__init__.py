"""Dead letters: records that were given up. `dead_letter` is the format, `dead_letter_writer` writes them, `replay` sends them back."""
