"""What the runs of a trial say, and how each has to end. Drawn from a seed, so it can be repeated.

The stand-in model takes its orders from directives in the message (standin/README.md).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

LOG = "log.txt"
"""The file that `append_file` grows in each session: a line per run that had an effect."""


@dataclass(frozen=True, slots=True)
class Script:
    """One run. `words`: of its final answer, if it completes. `stops`: the client interrupts it.
    `appends`: it writes its own id into LOG, with a tool that may run at most once. `asks`: it
    waits for a person, whom the client plays."""

    kind: str
    text: str
    words: int
    stops: bool = False
    appends: bool = False
    asks: bool = False


def _plain(run: str, draw: Random) -> Script:
    words = draw.randint(20, 120)
    return Script("plain", _asks(run, f"tokens={words} delay_ms=20 flush"), words)


def _instant(run: str, draw: Random) -> Script:
    return Script("instant", _asks(run, "tokens=12"), 12)


def _writes(run: str, draw: Random) -> Script:
    call = {"path": f"notes/{run}.txt", "content": run}
    return _calls("idempotent tool", run, "write_file", call)


def _appends(run: str, draw: Random) -> Script:
    script = _calls("tool that runs once", run, "append_file", {"path": LOG, "text": run})
    return Script(script.kind, script.text, script.words, appends=True)


def _calls(kind: str, run: str, tool: str, arguments: Mapping[str, str]) -> Script:
    first = f"turn=1 id={run} call={tool} args={json.dumps(arguments)} delay_ms=20"
    return Script(kind, f"[[standin: {first}]] [[standin: turn=2 tokens=20 delay_ms=20 flush]]", 20)


def _fails(name: str, how: str) -> Callable[[str, Random], Script]:
    def script(run: str, draw: Random) -> Script:
        times = draw.randint(1, 2)
        return Script(name, _asks(run, f"{how} times={times}", "tokens=20"), 20)

    return script


def _questions(run: str, draw: Random) -> Script:
    call = f'call=ask_clarification args={{"question":"Which one, {run}?"}}'
    text = f"[[standin: turn=1 id={run} {call}]] [[standin: turn=2 tokens=20 delay_ms=20 flush]]"
    return Script("question to a person", text, 20, asks=True)


def _stopped(run: str, draw: Random) -> Script:
    return Script("interrupt", _asks(run, "tokens=2000 delay_ms=20 flush"), 2000, stops=True)


def _asks(run: str, *directives: str) -> str:
    orders = " ".join(f"[[standin: id={run} {each}]]" for each in directives)
    return f"Tell me about varves. {orders}"


_SCRIPTS: tuple[tuple[int, Callable[[str, Random], Script]], ...] = (
    (35, _plain),
    (5, _instant),
    (15, _writes),
    (15, _appends),
    (5, _fails("model: 500", "status=500")),
    (5, _fails("model: 429", "status=429 retry_after=1")),
    (5, _fails("model: broken stream", "error_after=4")),
    (5, _fails("model: cut connection", "cut_after=4")),
    (5, _fails("model: stall", "stall_after=4")),
    (15, _questions),
    (5, _stopped),
)


def draw_script(run: str, draw: Random) -> Script:
    """What the run of this id says."""
    weights, scripts = zip(*_SCRIPTS, strict=True)
    return draw.choices(scripts, weights)[0](run, draw)
