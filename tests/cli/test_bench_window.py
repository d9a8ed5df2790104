"""What `varve bench window` counts: two policies on conversations that can be checked by hand."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cli.bench.conversations import Conversation, Said, made_up, read
from cli.bench.windows import compare, last_messages, today_yesterday
from domain.errors import InvalidInput
from domain.messages import Message, Role


def _daily(days: int, a_day: int) -> tuple[Said, ...]:
    start = datetime(2026, 3, 1, 9, tzinfo=UTC)
    return tuple(
        Said(start + timedelta(days=day, minutes=n), Message(f"{day}-{n}", Role.USER, "word"))
        for day in range(days)
        for n in range(a_day)
    )


def test_the_last_twenty_messages_are_shown_whenever_they_were_said() -> None:
    shown = last_messages(_daily(days=40, a_day=1))
    assert [message.id for message in shown] == [f"{day}-0" for day in range(20, 40)]


def test_the_older_policy_shows_two_days_however_much_was_said() -> None:
    assert len(today_yesterday(_daily(days=10, a_day=50))) == 100


def test_the_older_policy_shows_nothing_after_a_pause_and_that_is_counted() -> None:
    start = datetime(2026, 3, 1, 9, tzinfo=UTC)
    pause = tuple(
        Said(start + timedelta(days=7 * week), Message(str(week), Role.USER, "word"))
        for week in range(5)
    )
    ours, older, *_ = compare([Conversation("weekly", "weekly", pause)])
    assert (ours.alone, older.alone) == (0, 1)
    assert (ours.runs, older.runs) == (5, 5)
    assert ours.mean > older.mean


def test_the_made_up_conversations_are_the_same_every_time() -> None:
    assert list(made_up()) == list(made_up())
    assert len({conversation.name for conversation in made_up()}) == 27


def test_a_folder_is_read_and_a_file_of_another_form_is_named(tmp_path: Path) -> None:
    turns = [{"id": "1", "speaker": "Ada", "text": "hi"}, {"id": "2", "speaker": "B", "text": "yo"}]
    session = {"at": "1:56 pm on 8 May, 2023", "turns": turns}
    document = {"speakers": ["Ada", "B"], "sessions": [session]}
    (tmp_path / "a.json").write_text(json.dumps(document))
    (conversation,) = read(tmp_path)
    assert [each.message.role for each in conversation.said] == [Role.USER, Role.ASSISTANT]
    assert conversation.said[0].at == datetime(2023, 5, 8, 13, 57, tzinfo=UTC)
    (tmp_path / "b.json").write_text("{}")
    with pytest.raises(InvalidInput, match=r"b\.json"):
        list(read(tmp_path))
