"""A campaign with Java's producer and consumer on the other side: what they write is read exactly, and they read what is written."""
