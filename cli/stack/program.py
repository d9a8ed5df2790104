"""Our own programs as parts of the stack: `python -m MODULE`, ready when a check says so."""

import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import httpx2
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest

from adapters.temporal import connect
from cli.stack.process import Child


class Program:
    """A module of ours in a process of its own. `check` gets its pid and raises until it is up."""

    def __init__(
        self,
        component: str,
        module: str,
        log: Path,
        *,
        check: Callable[[int], Awaitable[object]],
        arguments: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
        stop_within_s: float = 15.0,
    ) -> None:
        self.component = component
        self.child = Child(component, log, stop_within_s=stop_within_s)
        self._argv = [sys.executable, "-m", module, *arguments]
        self._check = check
        self._env = env

    async def start(self) -> None:
        """Start it, return when it is ready. Raises StackError."""
        pid = await self.child.spawn(self._argv, env=self._env)
        await self.child.ready(lambda: self._check(pid), within_s=120)

    async def stop(self) -> None:
        await self.child.stop()


def answers(url: str) -> Callable[[int], Awaitable[object]]:
    """A check: GET on this URL succeeds."""

    async def check(_pid: int) -> None:
        async with httpx2.AsyncClient(timeout=5) as http:
            (await http.get(url)).raise_for_status()

    return check


class NoPoller(Exception):
    """No worker asks for work on this task queue."""


WORKFLOWS = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
ACTIVITIES = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY


def polls(
    address: str, namespace: str, queue: str, kind: TaskQueueType.ValueType = WORKFLOWS
) -> Callable[[int], Awaitable[object]]:
    """A check: a process with this pid asks Temporal for work of this kind on this task queue."""

    async def check(pid: int) -> None:
        identities = await pollers(address, namespace, queue, kind)
        if not any(identity.split("@")[0] == str(pid) for identity in identities):
            raise NoPoller(f"nobody with pid {pid} polls the queue {queue}")

    return check


async def pollers(
    address: str, namespace: str, queue: str, kind: TaskQueueType.ValueType = WORKFLOWS
) -> list[str]:
    """Identities of the workers that polled this queue for such tasks lately."""
    client = await connect(address, namespace)
    described = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=namespace,
            task_queue=TaskQueue(name=queue),
            task_queue_type=kind,
        )
    )
    return [poller.identity for poller in described.pollers]
