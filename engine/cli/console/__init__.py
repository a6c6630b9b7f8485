"""Command line code that Stormcell and its Spark bridge share (commands, output, terminal sessions, user files)."""
