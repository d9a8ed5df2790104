"""Somebody is told of a run's end: signed, and again until it is taken."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
from pydantic import SecretStr
from temporalio.service import RPCError
from temporalio.testing import ActivityEnvironment

from adapters.postgres.pool import Row
from adapters.webhook_sender import WebhookSender
from domain.errors import Permanent
from domain.ids import webhook_workflow_id
from domain.runs import Run, RunRequest
from domain.webhooks import is_public
from tests.fixtures_worker import System, elsewhere
from tests.replay.corpus import keep
from tests.workflows.test_agent_run import until
from tests.workflows.test_reconcile import lately, reconciler

SECRET = "whsec_" + base64.b64encode(b"a key of some length").decode()


@dataclass
class Receiver:
    """An HTTP server that answers with these statuses in turn, the last one ever after."""

    statuses: list[int]
    url: str = ""
    got: list[tuple[dict[str, str], str]] = field(default_factory=list[tuple[dict[str, str], str]])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = {
            name.lower(): value
            for line in head.split("\r\n")[1:]
            if line
            for name, value in [line.split(": ", 1)]
        }
        body = (await reader.readexactly(int(headers["content-length"]))).decode()
        self.got.append((headers, body))
        status = self.statuses[min(len(self.got), len(self.statuses)) - 1]
        more = "location: http://127.0.0.1:1/\r\n" if status == 302 else ""
        writer.write(f"HTTP/1.1 {status} X\r\n{more}content-length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()


@asynccontextmanager
async def receiving(*statuses: int) -> AsyncGenerator[Receiver]:
    receiver = Receiver(list(statuses))
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook?x=1"
    async with server:
        yield receiver


def telling(system: System) -> AbstractAsyncContextManager[System]:
    return elsewhere(system, webhook_secret=SecretStr(SECRET), webhook_private=True)


async def row(system: System, run: Run) -> Row:
    found = await system.pool.fetchrow("SELECT * FROM webhooks WHERE run_key = $1", run.key)
    assert found is not None
    return found


async def swept(system: System) -> None:
    """As the reconciler does, a while later."""
    await asyncio.sleep(2.1)
    await ActivityEnvironment().run(reconciler(system).sweep, lately())


async def test_it_is_signed_and_says_how_the_run_ended(system: System) -> None:
    async with receiving(204) as receiver, telling(system) as told:
        run = await told.run("a secret word", request=RunRequest(webhook=receiver.url))
        await swept(told)
        await until(lambda: _is(told, run, "delivered"))
        [(headers, body)] = receiver.got
        stamp = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{body}"
        digest = hmac.new(b"a key of some length", stamp.encode(), hashlib.sha256).digest()
        assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
        assert json.loads(body)["type"] == "run.completed"
        assert json.loads(body)["data"]["runId"] == run.run_id
        assert "secret word" not in body
        await swept(told)
        assert len(receiver.got) == 1
        handle = told.client.get_workflow_handle(webhook_workflow_id(run.key))
        await handle.result()
        await keep("tells_of_an_end", handle)


async def _is(system: System, run: Run, status: str) -> bool:
    return (await row(system, run))["status"] == status


async def test_it_is_sent_again_until_it_is_taken(system: System) -> None:
    async with receiving(500, 200) as receiver, telling(system) as told:
        run = await told.run("[[standin: status=401]]", request=RunRequest(webhook=receiver.url))
        await swept(told)
        await until(lambda: _is(told, run, "delivered"))
        assert (await row(told, run))["attempts"] == 2
        (first, body), (second, again) = receiver.got
        assert (first["webhook-id"], body) == (second["webhook-id"], again)
        assert json.loads(body)["type"] == "run.failed"


@pytest.mark.parametrize(("status", "words"), [(410, "wants no more"), (302, "answered 302")])
async def test_what_is_refused_or_led_elsewhere_is_not_followed(
    system: System, status: int, words: str
) -> None:
    async with receiving(status) as receiver, telling(system) as told:
        run = await told.run("hello", request=RunRequest(webhook=receiver.url))
        await swept(told)

        async def tried() -> bool:
            return (await row(told, run))["attempts"] >= 1

        await until(tried)
        assert words in (await row(told, run))["last_error"]
        assert (await row(told, run))["status"] == ("failed" if status == 410 else "pending")
        with suppress(RPCError):  # given up: it has ended
            await told.client.get_workflow_handle(webhook_workflow_id(run.key)).terminate()


async def test_nobody_inside_is_told(system: System) -> None:
    async with receiving(200) as receiver:
        with pytest.raises(Permanent, match="private"):
            await WebhookSender("s").send(receiver.url, "id", "{}")
        assert receiver.got == []
    inside = ("127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "::ffff:10.0.0.1", "fe80::1%eth0")
    assert not any(is_public(address) for address in inside)
    assert is_public("1.1.1.1")
    assert is_public("2606:4700:4700::1111")
