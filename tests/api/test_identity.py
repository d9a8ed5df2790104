"""Who may come in, and how far."""

from datetime import UTC, datetime, timedelta

from adapters.postgres.pool import Pool
from adapters.postgres.users import UserStore
from domain.identity import DEFAULT_SCOPES, Scope
from tests.fixtures_api import Api, accepted


async def test_without_a_key_nobody_comes_in(api: Api) -> None:
    response = await api.client().get("/me")
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["type"] == "/problems/unauthorized"


async def test_a_wrong_key_and_other_schemes_are_refused(api: Api) -> None:
    for value in (b"Bearer vk_0_0", b"Bearer \xff", b"Basic dTpw", b"Bearer"):
        response = await api.client().get("/me", headers=[(b"authorization", value)])
        assert response.status_code == 401, value


async def test_a_key_says_who_you_are(api: Api) -> None:
    alice = await api.person("alice", scopes=DEFAULT_SCOPES)
    me = (await alice.http.get("/me")).json()
    assert (me["name"], me["scopes"]) == (alice.user.name, sorted(DEFAULT_SCOPES))


async def test_expired_and_revoked_keys_are_refused(api: Api, pool: Pool) -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)
    expired = await api.person("eve", expires_at=past)
    assert (await expired.http.get("/me")).status_code == 401
    users, revoked = UserStore(pool), await api.person("rex")
    assert (await revoked.http.get("/me")).status_code == 200
    await users.revoke(revoked.key.split("_")[1])
    assert (await revoked.http.get("/me")).status_code == 401


async def test_a_loopback_key_is_refused_when_the_request_was_forwarded(api: Api) -> None:
    demo = await api.person("demo", loopback_only=True)
    assert (await demo.http.get("/me")).status_code == 200
    for header in ("x-forwarded-for", "forwarded", "x-real-ip", "via"):
        response = await demo.http.get("/me", headers={header: "for=203.0.113.9"})
        assert response.status_code == 401


async def test_a_key_without_the_scope_is_forbidden(api: Api) -> None:
    reader = await api.person("reader", scopes=[Scope.RUNS_READ])
    assert (await reader.http.get("/runs")).status_code == 200
    response = await reader.http.post("/runs", json={"threadId": "t"})
    assert response.status_code in (403, 422)
    assert (await reader.http.get("/audit")).status_code == 403
    await accepted(await api.person("writer", scopes=[Scope.RUNS_WRITE]))
