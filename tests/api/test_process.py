"""`python -m api` as a process: started by its environment, stopped by a signal."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import httpx2

from adapters.settings import Settings
from api.app import PREFIX
from cli.stack.ports import free_port
from tests.fixtures_api import Api, parse, run_input


@asynccontextmanager
async def process(config: Settings, port: int) -> AsyncGenerator[asyncio.subprocess.Process]:
    names = ("database_url", "redis_url", "temporal_address", "run_queue")
    ours = {f"VARVE_{name.upper()}": str(getattr(config, name)) for name in names}
    others = {name: value for name, value in os.environ.items() if not name.startswith("VARVE_")}
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "api"), env={**others, **ours, "VARVE_API_PORT": str(port)}
    )
    try:
        yield running
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()


async def test_a_signal_ends_open_streams_with_a_word(api: Api) -> None:
    alice, port = await api.person("alice"), free_port()
    url = f"http://127.0.0.1:{port}{PREFIX}"
    async with process(api.settings, port) as running:
        while True:
            assert running.returncode is None
            with suppress(httpx2.ConnectError):
                assert (await alice.http.get(f"{url}/health/ready")).status_code == 200
                break
            await asyncio.sleep(0.1)
        received = ""
        async with alice.http.stream("POST", f"{url}/runs", json=run_input()) as response:
            async for text in response.aiter_text():
                received += text
                if "MESSAGES_SNAPSHOT" in text:
                    running.terminate()
        assert parse(received)[-1].frame["code"] == "stream_closed"
        # uvicorn passes the signal on to itself once everything is closed in order
        assert await running.wait() in (0, -signal.SIGTERM)


async def test_a_variable_that_is_wrong_is_named(api: Api) -> None:
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "api"),
        env={**os.environ, "VARVE_API_PROT": "1"},
        stderr=asyncio.subprocess.PIPE,
    )
    _, told = await running.communicate()
    assert running.returncode == 1
    assert b"VARVE_API_PROT" in told
