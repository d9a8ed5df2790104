"""`python -m cli.bench.floor ADDRESS NAMESPACE QUEUE`: a worker of the empty workflow, alone."""

import asyncio
import signal
import sys

import uvloop
from temporalio.worker import Worker

from adapters.temporal import connect
from cli.bench.empty import EmptyWorkflow


async def serve(address: str, namespace: str, queue: str) -> None:
    """Until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    client = await connect(address, namespace)
    async with Worker(client, task_queue=queue, workflows=[EmptyWorkflow]):
        await stop.wait()


if __name__ == "__main__":
    uvloop.run(serve(*sys.argv[1:4]))
