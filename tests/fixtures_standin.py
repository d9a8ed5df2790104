"""The stand-in model as a real process, once per test session. Import `standin` into conftest."""

import json
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from cli.stack.process import die_with_parent


@dataclass(frozen=True, slots=True)
class Standin:
    """A running stand-in. `base_url` ends in /v1, as OpenAI clients want it."""

    base_url: str

    @property
    def root(self) -> str:
        return self.base_url.removesuffix("/v1")

    async def control(self, **body: Any) -> None:
        """POST /control: reset=True, always="words", next=["words", …]."""
        async with httpx2.AsyncClient() as http:
            (await http.post(f"{self.root}/control", json=body)).raise_for_status()

    async def report(self, contains: str = "") -> dict[str, Any]:
        """Counts since the last reset, and the requests whose body contains a text."""
        async with httpx2.AsyncClient() as http:
            url = f"{self.root}/control/requests"
            return (await http.get(url, params={"contains": contains})).json()


@pytest.fixture(scope="session")
def standin() -> Generator[Standin]:
    process = subprocess.Popen(
        [sys.executable, "-m", "standin", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,
    )
    assert process.stdout is not None
    yield Standin(json.loads(process.stdout.readline())["base_url"])
    process.terminate()
    process.wait(timeout=10)
