"""Server-sent events from bytes: the data of each event, whatever the network cut them into.

Follows the WHATWG algorithm (CR, LF and CRLF end lines; several data lines are joined), except
that the data of a last event without its blank line is kept: some gateways forget it.
"""

from domain.errors import ErrorCode, Transient

_MOST = 16 * 1024 * 1024  # bytes of one event
_BOM = b"\xef\xbb\xbf"


class EventData:
    """Feed it blocks of bytes; it returns the data of the events that are complete."""

    __slots__ = ("_data", "_rest", "_size")

    def __init__(self) -> None:
        self._rest = b""  # an incomplete line
        self._data: list[bytes] = []  # the data lines of an incomplete event
        self._size = 0

    def feed(self, block: bytes) -> list[bytes]:
        """Raises Transient if an event is absurdly long."""
        buffer = self._rest + block
        # A CR at the very end may be half of a CRLF, so it waits for what follows.
        end = max(buffer.rfind(b"\n"), buffer.rfind(b"\r", 0, -1)) + 1
        self._rest = buffer[end:]
        if len(self._rest) + self._size > _MOST:
            raise Transient("The model sent an event that never ends.", ErrorCode.INVALID_RESPONSE)
        return self._lines(buffer[:end].splitlines()) if end else []

    def close(self) -> list[bytes]:
        """What is left when the stream has ended."""
        rest, self._rest = self._rest, b""
        return self._lines([*rest.splitlines(), b""])

    def _lines(self, lines: list[bytes]) -> list[bytes]:
        events: list[bytes] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._add(line[5:])
            elif not line:
                if self._data:
                    events.append(b"\n".join(self._data))
                    self._data, self._size = [], 0
            elif line.startswith(_BOM + b"data:"):
                self._add(line[8:])
        return events  # comments, ids and event names carry nothing here

    def _add(self, value: bytes) -> None:
        self._data.append(value[1:] if value.startswith(b" ") else value)
        self._size += len(value)
