"""Works of streams: event-time windows beside Bytewax, beside each other, and beside topologies by hand."""
