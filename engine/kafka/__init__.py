"""Kafka: a source that neither loses nor repeats, and a sink. Needs `pip install 'stormcell[kafka]'`."""
