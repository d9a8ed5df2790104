"""TCP ports on the loopback interface."""

import socket

HOST = "127.0.0.1"


def free_port() -> int:
    """A port nobody listens on right now. Another process may still take it first."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def is_free(port: int) -> bool:
    """Whether a server could listen on this port now (one in TIME_WAIT counts as free)."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def port_or_free(preferred: int) -> int:
    """`preferred` when it is free, otherwise any free port. 0 means any."""
    return preferred if preferred and is_free(preferred) else free_port()
