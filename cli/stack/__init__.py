"""The embedded stack: real servers from wheels, as child processes of whoever needs them."""
