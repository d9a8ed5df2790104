"""Sending one webhook: signed, bounded, and to nobody inside."""

import asyncio
import socket
import time
from http import HTTPStatus
from urllib.parse import urlsplit

import httpx2

from domain.errors import ErrorCode, Permanent, Transient
from domain.webhooks import is_public, signed

_TIMEOUT_S = 10.0


class WebhookSender:
    """private: addresses that are not of the open internet are admitted too."""

    def __init__(self, secret: str, *, private: bool = False) -> None:
        self._secret = secret
        self._private = private

    async def send(self, url: str, id: str, body: str) -> None:
        """POST it once. Raises Permanent for what will never be taken, else Transient.

        The address is checked after resolution and then used as it is, so that it can't change in
        between. Redirects are not followed.
        """
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        address = await self._resolved(parts.hostname or "", port)
        headers = {
            "content-type": "application/json",
            "host": parts.netloc.rpartition("@")[2],
            **signed(self._secret, id, int(time.time()), body),
        }
        host = f"[{address}]" if ":" in address else address
        target = parts._replace(netloc=f"{host}:{port}").geturl()
        extensions = {"sni_hostname": parts.hostname or ""}
        try:
            async with httpx2.AsyncClient(timeout=_TIMEOUT_S, trust_env=False) as http:
                request = http.build_request(
                    "POST", target, content=body, headers=headers, extensions=extensions
                )
                response = await http.send(request, stream=True, follow_redirects=False)
                await response.aclose()
        except httpx2.HTTPError as error:
            words = f"it could not be reached: {type(error).__name__}"
            raise Transient(words, ErrorCode.CONNECTION) from error
        if response.is_success:
            return
        if response.status_code == HTTPStatus.GONE:
            raise Permanent("it answered 410: it wants no more", ErrorCode.BAD_REQUEST)
        raise Transient(f"it answered {response.status_code}", ErrorCode.CONNECTION)

    async def _resolved(self, host: str, port: int) -> str:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise Transient("its name can't be resolved", ErrorCode.CONNECTION) from error
        addresses = [str(entry[4][0]) for entry in found]
        if not self._private and not all(is_public(address) for address in addresses):
            words = "its address is private: VARVE_WEBHOOK_PRIVATE admits those"
            raise Permanent(words, ErrorCode.BAD_REQUEST)
        return addresses[0]
