"""`varve memory …` as a shell calls it, against a real API."""

from pathlib import Path

import pytest

from adapters.postgres.facts import FactStore
from adapters.postgres.pool import Pool
from domain.facts import FactWrite, Rejection
from tests.cli.test_commands import Shell
from tests.fixtures_api import Api, Person
from tests.remembered import said

pytestmark = pytest.mark.anyio


@pytest.fixture
async def ada(api: Api) -> Person:
    return await api.person("ada")


@pytest.fixture
def varve(api: Api, ada: Person, tmp_path: Path) -> Shell:
    url = api.base_url.removesuffix("/api/v1/agent")
    return Shell(tmp_path, VARVE_API_URL=url, VARVE_API_KEY=ada.key)


async def test_a_fact_s_life_in_the_terminal(varve: Shell) -> None:
    written = await varve.json("memory", "write", "drink", "Likes green tea.", "--tag", "tea")
    fact_id = written["fact"]["id"]
    (found,) = await varve.json("memory", "search", "green tea")
    assert found["id"] == fact_id
    assert (await varve("memory", "forget", fact_id, "--reason", "asked")).code == 0
    assert await varve.json("memory", "list") == []
    assert (await varve.json("memory", "purge", fact_id, "--yes"))["versions"] == 1
    gone = await varve("memory", "show", fact_id)
    assert (gone.code, "there is no fact" in gone.err) == (1, True)


async def test_a_fact_is_shown_with_the_message_that_says_so(
    varve: Shell, ada: Person, pool: Pool
) -> None:
    message = await said(pool, ada.user.id, "I like green tea")
    write = FactWrite("drink", "Green tea.", evidence=(message,))
    done = await FactStore(pool).write(ada.user.id, write)
    assert done.fact is not None
    shown = (await varve("memory", "show", str(done.fact.id))).out
    assert "I like green tea" in shown
    assert "Written by a person." in shown


async def test_what_was_not_believed_is_listed(varve: Shell, ada: Person, pool: Pool) -> None:
    guess = FactWrite("drink", "Perhaps coffee.", confidence=0.3)
    await FactStore(pool).reject(ada.user.id, guess, Rejection.CONFIDENCE, write_key="c")
    (candidate,) = await varve.json("memory", "candidates")
    assert (candidate["key"], candidate["reason"]) == ("drink", "confidence")
