"""`python -m standin --host 127.0.0.1 --port 0`: serve, and say where as one line of JSON."""

import argparse
import json
import socket
import sys

import uvicorn

from standin.app import NOTICE, create_app


def main() -> None:
    """Serve until SIGINT or SIGTERM. Port 0 takes a free one."""
    parser = argparse.ArgumentParser(prog="standin", description=NOTICE)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    asked = parser.parse_args()
    listener = _listen(asked.host, asked.port)
    port = listener.getsockname()[1]
    address = {"base_url": f"http://{asked.host}:{port}/v1", "host": asked.host, "port": port}
    sys.stdout.write(json.dumps({**address, "notice": NOTICE}) + "\n")
    sys.stdout.flush()
    # Connections cut on purpose would fill an error log; the journal has every outcome.
    config = uvicorn.Config(create_app(), log_level="critical", access_log=False, lifespan="off")
    # Streams that stall on purpose must not hold up the end.
    config.timeout_graceful_shutdown = 1
    uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen(2048)
    return listener


if __name__ == "__main__":
    main()
