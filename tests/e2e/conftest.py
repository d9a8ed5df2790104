"""One real stack for all of these tests; what a test left dead is started before the next."""

from collections.abc import AsyncGenerator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.e2e.client import Client
from tests.e2e.stack import Stack, Tally

_TALLY = pytest.StashKey[Tally]()


@pytest.fixture(scope="session")
def tally(request: pytest.FixtureRequest) -> Tally:
    return request.config.stash.setdefault(_TALLY, Tally())


@pytest.fixture(scope="session")
async def running(tally: Tally) -> AsyncGenerator[Stack]:
    with TemporaryDirectory(prefix="varve-e2e-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        stack = Stack(Path(folder), tally)
        try:
            await stack.start()
            yield stack
        finally:
            await stack.stop()


@pytest.fixture
async def stack(running: Stack) -> Stack:
    await running.mend()
    return running


@pytest.fixture
async def client(stack: Stack) -> AsyncGenerator[Client]:
    client = Client(stack.api_url, stack.key, stack.tally)
    yield client
    await client.close()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if tally := config.stash.get(_TALLY, None):
        terminalreporter.section("faults")
        for line in tally.lines():
            terminalreporter.write_line(line)
