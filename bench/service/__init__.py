"""Requests that get the results of their own trees (SV-6, SV-8), in process and over HTTP."""
