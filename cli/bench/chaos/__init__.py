"""Runs under random faults: what is said, what is broken, and what must hold afterwards."""
