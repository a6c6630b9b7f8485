"""Random transactional topologies, batches and faults under the virtual clock, compared with a sequential interpreter."""
