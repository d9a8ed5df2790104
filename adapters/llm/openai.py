"""Any server that speaks the OpenAI chat API."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import aiohttp
import httpx2
import openai

from adapters.llm import body
from adapters.llm.failures import from_call
from adapters.llm.reply import ReplyReader
from adapters.settings import Dialect, Settings
from domain.errors import ErrorCode, Permanent
from domain.messages import ModelReply, ModelRequest
from domain.ports import OnText

_CONNECT_S = 10.0
_DRAIN_S = 0.2
_LIMITS = httpx2.Limits(max_connections=1000, max_keepalive_connections=100, keepalive_expiry=30)
_TRANSPORT_ERRORS = (httpx2.HTTPError, aiohttp.ClientError, TimeoutError, OSError)


def build_client(settings: Settings) -> openai.AsyncOpenAI:
    """A client for the configured endpoint, for a worker's main: it closes it, and builds it once,
    because building takes 25 ms of CPU.

    `model_timeout_s` bounds each silence, not the whole answer. Raises ValueError without an
    endpoint. Reading over aiohttp, which the SDK offers as an option, takes half the CPU of its
    default transport when tokens arrive one by one.
    """
    if settings.model_base_url is None:
        raise ValueError("VARVE_MODEL_BASE_URL is not set")
    timeout = httpx2.Timeout(settings.model_timeout_s, connect=_CONNECT_S)
    return openai.AsyncOpenAI(
        base_url=settings.model_base_url,
        api_key=settings.model_api_key.get_secret_value(),
        max_retries=0,
        timeout=timeout,
        http_client=openai.DefaultAioHttpClient(timeout=timeout, limits=_LIMITS),
    )


class OpenAIModel:
    """The official client's keys, options and errors, with a reading of the stream of our own."""

    def __init__(self, client: openai.AsyncOpenAI, *, dialect: Dialect) -> None:
        # Temporal retries. A second retry loop in here would multiply its attempts.
        self._client = client.with_options(max_retries=0)
        self._dialect: Dialect = dialect

    async def stream(self, request: ModelRequest, on_text: OnText) -> ModelReply:
        """Call the model once; `on_text` gets the text of each network read.

        Raises Transient or Permanent, and whatever `on_text` raises. Cancelled or failed, the
        connection is closed. Usage is zero if the provider never sent any.
        """
        names = body.Names.of(request.tools)
        response = await self._open(body.build(request, names, self._dialect))
        try:
            reader = ReplyReader()
            await _consume(response, reader, on_text)
            return reader.reply(request.model, names)
        finally:
            await response.aclose()

    async def _open(self, content: dict[str, object]) -> httpx2.Response:
        """The response with its body unread."""
        try:
            response = await self._client.post(
                "/chat/completions",
                # Not `chat.completions.create`: it walks messages and tools through its type
                # annotations, 12 ms of CPU for an ordinary window. The header is how the SDK
                # itself asks for a response that is still a stream.
                cast_to=httpx2.Response,
                body=content,
                options={"headers": {"X-Stainless-Raw-Response": "stream"}},
            )
        except (openai.APIError, *_TRANSPORT_ERRORS) as error:
            raise from_call(error) from error
        kind = response.headers.get("content-type", "")
        if kind.startswith(("text/html", "application/json")):
            await response.aclose()
            raise Permanent(
                f"The endpoint answered with {kind}, not with a stream. Is its address right?",
                ErrorCode.INVALID_RESPONSE,
            )
        return response


async def _consume(response: httpx2.Response, reader: ReplyReader, on_text: OnText) -> None:
    blocks = _blocks(response, reader)
    async with contextlib.aclosing(blocks):
        async for block in blocks:
            if text := reader.feed(block):
                await on_text(text)
            if reader.done:
                # Read to the end, or the connection cannot serve the next call.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_DRAIN_S):
                        async for _ in blocks:
                            pass
                return
    if text := reader.close():
        await on_text(text)


async def _blocks(response: httpx2.Response, reader: ReplyReader) -> AsyncGenerator[bytes]:
    """The bytes as they come. An answer that is complete needs no clean end of its connection."""
    try:
        async for block in response.aiter_bytes():
            yield block
    except _TRANSPORT_ERRORS as error:
        if not reader.complete:
            raise from_call(error) from error
