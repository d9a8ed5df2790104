"""A client of the job routes for the terminal."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any
from uuid import UUID

import httpx2

from cli.client import Unreachable, raise_for
from domain.errors import InvalidInput

BASE = "/api/v1/automation"
PAGE = 100
_LOOK_EVERY_S = 0.3


class Automation:
    """Use as a context manager. `owner`: act for this user, as an operator may.

    Every method raises ApiError for a refusal and Unreachable when nobody answers. A job is given
    by its id, the beginning of one, or the name of a built-in one.
    """

    def __init__(self, api_url: str, key: str, owner: str | None = None) -> None:
        self._http = httpx2.AsyncClient(
            base_url=api_url.rstrip("/") + BASE,
            headers={"authorization": f"Bearer {key}"},
            params={"owner_id": owner} if owner else {},
            timeout=30.0,
        )

    async def __aenter__(self) -> "Automation":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def jobs(self, status: str | None = None) -> list[dict[str, Any]]:
        where = {"status": status} if status else {}
        return [job async for job in self._pages("/jobs", where)]

    async def create(self, body: dict[str, Any]) -> dict[str, Any]:
        return await self._ask("POST", "/jobs", body)

    async def get(self, job: str) -> dict[str, Any]:
        return await self._ask("GET", await self._path(job))

    async def change(self, job: str, body: dict[str, Any]) -> dict[str, Any]:
        return await self._ask("PATCH", await self._path(job), body)

    async def delete(self, job: str) -> dict[str, Any]:
        return await self._ask("DELETE", await self._path(job))

    async def act(self, job: str, verb: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """`verb`: pause, resume, trigger or backfill."""
        return await self._ask("POST", f"{await self._path(job)}/{verb}", body)

    async def runs(self, job: str, limit: int) -> list[dict[str, Any]]:
        """Its latest slots, latest first."""
        found: list[dict[str, Any]] = []
        async for slot in self._pages(f"{await self._path(job)}/runs", {}):
            found.append(slot)
            if len(found) == limit:
                break
        return found

    async def run_now(self, job: str, *, again: bool = False) -> dict[str, Any]:
        """Trigger, or attach to what runs, and wait for the end of the slot. The slot."""
        before = {slot["slot"]: slot["attempt"] for slot in await self.runs(job, PAGE)}
        asked = await self.act(job, "trigger", {"again": again})
        least = asked["run"]["attempt"] if asked["run"] else before.get(asked["slot"], 0) + 1
        while True:
            for slot in await self.runs(job, PAGE):
                ended = slot["finished_at"] and slot["attempt"] >= least
                if slot["slot"] == asked["slot"] and ended:
                    return slot
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _path(self, job: str) -> str:
        try:
            return f"/jobs/{UUID(job)}"
        except ValueError:
            return f"/jobs/{await self._found(job)}"

    async def _found(self, job: str) -> str:
        jobs = await self.jobs()
        found = [j["id"] for j in jobs if j["builtin"] == job or j["id"].startswith(job.lower())]
        if len(found) != 1:
            how_many = "Several jobs begin" if found else "No job begins"
            raise InvalidInput("job", f"{how_many} with {job!r}; `varve jobs list` shows all.")
        return found[0]

    async def _pages(self, path: str, where: dict[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        cursor: dict[str, Any] = {}
        while True:
            page = await self._ask("GET", path, params={"limit": PAGE, **where, **cursor})
            for item in page["items"]:
                yield item
            if page["nextCursor"] is None:
                return
            cursor = {"cursor": page["nextCursor"]}

    async def _ask(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        params: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        try:
            response = await self._http.request(method, path, json=body, params=params)
        except httpx2.TransportError as error:
            raise Unreachable(f"The API at {self._http.base_url} does not answer.") from error
        await raise_for(response)
        return response.json()
