"""The embedded servers: they start, answer, stop, and come back after a crash."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import asyncpg
import psutil
import pytest
from redis.asyncio import Redis
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from adapters.postgres.pool import Pool
from adapters.temporal import SEARCH_ATTRIBUTES, connect, ensure_search_attributes
from cli.stack import unprivileged
from cli.stack.errors import StackError
from cli.stack.migrate import migrate, pending
from cli.stack.ports import free_port
from cli.stack.postgres import Postgres, connection
from cli.stack.temporal import Temporal
from cli.stack.valkey import Valkey

pytestmark = pytest.mark.anyio


async def test_a_migrated_database_has_nothing_pending(database_url: str) -> None:
    assert await pending(database_url) == []
    await migrate(database_url)


async def test_trigrams_see_chinese_words(pool: Pool) -> None:
    assert await pool.fetchval("SELECT show_trgm('你好世界')") != []


async def test_what_a_test_writes_to_redis_is_gone_for_the_next(redis_url: str) -> None:
    async with Redis.from_url(redis_url) as client:
        assert await client.dbsize() == 0
        await client.set("left", "over")


async def test_search_attributes_may_be_registered_twice(temporal: Client) -> None:
    await ensure_search_attributes(temporal)
    await ensure_search_attributes(temporal)
    names = ", ".join(key.name for key in SEARCH_ATTRIBUTES)
    assert len(SEARCH_ATTRIBUTES) == 9, names


async def test_time_can_be_skipped(skipping: WorkflowEnvironment) -> None:
    before = await skipping.get_current_time()
    await skipping.sleep(3600)
    assert (await skipping.get_current_time() - before).total_seconds() >= 3600


async def test_postgres_comes_back_after_kill_with_its_data(tmp_path: Path) -> None:
    data, log = tmp_path / "pg", tmp_path / "pg.log"
    first = Postgres(data, log, password="s3cret")
    await first.start()
    async with connection(first.url) as database:
        await database.execute("CREATE TABLE kept AS SELECT 1 AS n")
    await first.child.kill()

    second = Postgres(data, log, port=first.port, password="s3cret")
    await second.start()
    async with connection(second.url) as database:
        assert await database.fetchval("SELECT n FROM kept") == 1
    await second.stop()
    assert second.child.pid is None


async def test_postgres_left_by_a_killed_parent_is_replaced(tmp_path: Path) -> None:
    data, log = tmp_path / "pg", tmp_path / "pg.log"
    orphan = Postgres(data, log)
    await orphan.start()
    orphan_pid = orphan.child.pid
    assert orphan_pid is not None

    heir = Postgres(data, log)
    await heir.start()
    assert heir.child.pid != orphan_pid
    assert orphan.child.pid is None
    await heir.stop()


async def test_a_stale_pid_file_of_another_process_is_no_obstacle(tmp_path: Path) -> None:
    server = Postgres(tmp_path / "pg", tmp_path / "pg.log")
    await server.start()
    await server.stop()
    (tmp_path / "pg" / "postmaster.pid").write_text(f"{os.getpid()}\n{tmp_path / 'pg'}\n0\n1\n\n\n")
    await server.start()
    await server.stop()
    assert psutil.pid_exists(os.getpid())


async def test_a_wrong_password_is_refused(tmp_path: Path) -> None:
    server = Postgres(tmp_path / "pg", tmp_path / "pg.log", password="right")
    await server.start()
    with pytest.raises(asyncpg.InvalidPasswordError):
        async with connection(server.url.replace("right", "wrong")):
            pass
    await server.stop()


async def test_valkey_comes_back_on_the_same_port_after_kill(tmp_path: Path) -> None:
    server = Valkey(tmp_path / "valkey", tmp_path / "valkey.log", password="s3cret")
    await server.start()
    port = server.port
    await server.child.kill()
    await server.start()
    assert server.port == port
    await server.stop()


async def test_temporal_keeps_history_over_a_restart(tmp_path: Path) -> None:
    server = Temporal(tmp_path / "temporal", tmp_path / "temporal.log")
    await server.start()
    client = await connect(server.address, "default")
    await client.start_workflow("Nobody", id="kept", task_queue="nobody")
    await server.stop()

    await server.start()
    client = await connect(server.address, "default")
    described = await client.get_workflow_handle("kept").describe()
    assert described.workflow_type == "Nobody"
    await server.stop()


async def test_a_taken_port_is_named_with_log_and_remedy(tmp_path: Path) -> None:
    port = free_port()
    taken = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", port)
    server = Valkey(tmp_path / "valkey", tmp_path / "valkey.log", port=port)
    with pytest.raises(StackError, match="Valkey") as caught:
        await server.start()
    assert str(tmp_path / "valkey.log") in str(caught.value)
    assert "Remedy" in str(caught.value)
    taken.close()


async def test_a_failed_migration_says_what_the_database_said() -> None:
    with pytest.raises(StackError, match="VARVE_DATABASE_URL"):
        await migrate(f"postgresql://postgres@127.0.0.1:{free_port()}/x")


async def test_a_child_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    from cli.stack.process import Child

    child = Child("Stubborn", tmp_path / "log", stop_signal=signal.SIGUSR1, stop_within_s=0.1)
    await child.spawn(["/bin/sh", "-c", "trap '' USR1; while :; do sleep 0.05; done"])
    await asyncio.sleep(0.1)
    await child.stop()
    assert child.pid is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused by PostgreSQL")
async def test_under_root_a_program_runs_as_nobody_and_still_enters_closed_folders(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "inside").write_text("")
    asks = "import os, sys; print(os.getuid(), os.access(sys.argv[1], os.F_OK), os.getgroups())"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", unprivileged.__file__, "65534", "65534", str(tmp_path / "inside")),
        *(sys.executable, "-c", asks, str(tmp_path / "inside")),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    assert said.decode().strip() == "65534 True []"


PARENT = """
import asyncio, sys
from pathlib import Path
from cli.stack.postgres import Postgres
from cli.stack.valkey import Valkey

async def main(folder):
    for server in (Postgres(folder / "pg", folder / "log"), Valkey(folder / "v", folder / "log")):
        server.child.dies_with_parent = True
        await server.start()
        print(server.child.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")
async def test_servers_of_a_test_run_die_with_it(tmp_path: Path) -> None:
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PARENT, str(tmp_path)), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    servers = [psutil.Process(int(await parent.stdout.readline())) for _ in range(2)]
    parent.kill()
    await parent.wait()
    async with asyncio.timeout(20):
        while any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in servers):
            await asyncio.sleep(0.02)
