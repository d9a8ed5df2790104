"""Conversations with dates, to count tokens on: made up by rules, or read from a folder."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from domain.errors import InvalidInput
from domain.messages import Message, Role
from domain.tools import ToolCall

_START = datetime(2026, 3, 2, 8, tzinfo=UTC)
_WORDS = {
    "en": [
        "the",
        "layer",
        "under",
        "the",
        "lake",
        "settled",
        "slowly",
        "and",
        "we",
        "counted",
        "each",
        "year",
        "of",
        "it",
        "again",
    ],
    "zh": list("湖底的泥层一年又一年地沉下来我们把它数了一遍再记在本子上"),
}


@dataclass(frozen=True, slots=True)
class Said:
    at: datetime
    message: Message


@dataclass(frozen=True, slots=True)
class Conversation:
    """One session from its first message to its last, oldest first."""

    name: str
    kind: str
    said: tuple[Said, ...]


@dataclass(frozen=True, slots=True)
class Habit:
    """How somebody uses an assistant. `every`: days from one day of use to the next."""

    kind: str
    a_day: int  # user messages on a day of use
    every: int
    days: int
    user_words: tuple[int, int]  # from, to; of a message
    answer_words: tuple[int, int]
    tools: float  # share of messages that are answered with a tool's help


HABITS = (
    Habit("a few a day", 4, 1, 30, (5, 40), (20, 150), 0.2),
    Habit("an hour a day", 30, 1, 14, (5, 40), (20, 150), 0.3),
    Habit("all day", 120, 1, 7, (5, 30), (20, 120), 0.3),
    Habit("once a week, at length", 40, 7, 56, (5, 60), (40, 300), 0.2),
    Habit("long documents", 6, 2, 20, (200, 900), (100, 500), 0.1),
    Habit("tools all the time", 20, 1, 10, (5, 30), (10, 60), 0.9),
)
_MADE_UP = 27
_TOOL_WORDS = (50, 400)


def made_up() -> Iterator[Conversation]:
    """27 conversations, always the same: each habit in both languages, some of them again."""
    for number in range(_MADE_UP):
        habit = HABITS[number % len(HABITS)]
        language = "zh" if number // len(HABITS) % 2 else "en"
        chance = random.Random(number)
        name = f"{habit.kind}, {language}, {number}"
        yield Conversation(name, habit.kind, tuple(_days(habit, language, chance)))


def _days(habit: Habit, language: str, chance: random.Random) -> Iterator[Said]:
    number = 0
    for day in range(0, habit.days, habit.every):
        at = _START + timedelta(days=day)
        for _ in range(max(1, round(chance.gauss(habit.a_day, habit.a_day / 4)))):
            at += timedelta(minutes=chance.randint(1, max(1, 600 // habit.a_day)))
            number += 1
            for message in _round(number, habit, language, chance):
                yield Said(at, message)


def _round(number: int, habit: Habit, language: str, chance: random.Random) -> Iterator[Message]:
    def text(bounds: tuple[int, int]) -> str:
        joint = "" if language == "zh" else " "
        return joint.join(chance.choices(_WORDS[language], k=chance.randint(*bounds)))

    yield Message(f"u{number}", Role.USER, text(habit.user_words))
    if chance.random() < habit.tools:
        call = ToolCall(f"c{number}", "read_file", json.dumps({"path": f"notes/{number}.md"}))
        yield Message(f"t{number}", Role.ASSISTANT, "", (call,))
        yield Message(f"r{number}", Role.TOOL, text(_TOOL_WORDS), tool_call_id=call.id)
    yield Message(f"a{number}", Role.ASSISTANT, text(habit.answer_words))


def read(folder: Path) -> Iterator[Conversation]:
    """Every *.json of a folder: {speakers, sessions: [{at, turns: [{id, speaker, text}]}]}.

    The first speaker is the user, the other one the assistant; `at` as "1:56 pm on 8 May, 2023".
    Raises InvalidInput naming the file that is not of this form.
    """
    for path in sorted(folder.glob("*.json")):
        try:
            document = json.loads(path.read_text())
            yield Conversation(path.stem, "two people over months", tuple(_spoken(document)))
        except (ValueError, KeyError, TypeError) as error:
            message = f"{path.name} is not a conversation: {error}"
            raise InvalidInput("conversations", message) from error


def _spoken(document: dict[str, Any]) -> Iterator[Said]:
    user = document["speakers"][0]
    for session in document["sessions"]:
        at = datetime.strptime(session["at"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for turn in session["turns"]:
            at += timedelta(minutes=1)
            role = Role.USER if turn["speaker"] == user else Role.ASSISTANT
            yield Said(at, Message(turn["id"], role, turn["text"]))
