"""The answer of a memory run: read strictly, and never believed beyond its window."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, cast, get_args
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.extraction import FORM, InvalidOutput, parse
from adapters.llm.body import Names, build
from adapters.postgres.facts import FactStore
from adapters.postgres.pool import Pool
from adapters.postgres.reading import ReadingStore
from adapters.settings import Dialect
from adapters.tools.catalog import built_in
from adapters.tools.registry import Registry, ToolContext
from domain.extraction import MAX_OPERATIONS, Forget, Write, cited, entries_of, tool_calls
from domain.jobs import Part
from domain.messages import Message, ModelRequest, Role
from domain.tools import ToolLists
from standin.request import Refused, read
from tests.people import accept, add_owner

WRITE = {"op": "write", "key": "tea", "value": "Likes tea.", "confidence": 0.9, "evidence": ["m1"]}
FORGET = {"op": "forget", "key": "tea", "reason": "asked", "evidence": ["m1"]}


def answer(*operations: Any) -> str:
    return json.dumps({"operations": operations})


def test_operations_are_read_with_their_defaults() -> None:
    assert parse(answer(WRITE, FORGET)) == (
        Write("tea", "Likes tea.", 0.9, ("m1",)),
        Forget("asked", ("m1",), key="tea"),
    )


@pytest.mark.parametrize("fence", ["```json\n{}\n```", "\n```\n{}```\n", "  {}  ", "\ufeff{}"])
def test_a_fence_or_space_around_the_answer_is_no_error(fence: str) -> None:
    assert parse(fence.replace("{}", answer(WRITE))) == parse(answer(WRITE))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "it is not JSON"),
        ("I recorded it.", "it is not JSON"),
        (answer(WRITE)[:-2], "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[]", "the answer: Input should be an object"),
        ("{}", "operations: Field required"),
        (answer({**WRITE, "op": "SECRET"}), "operations.0: op must be write or forget"),
        (answer({**WRITE, "SECRET": 1}), "operations.0: has a field that does not belong there"),
        (answer(WRITE, {**WRITE, "confidence": 1.01}), "operations.1.confidence: "),
        (answer({**WRITE, "confidence": float("nan")}), "operations.0.confidence: "),
        (answer({**WRITE, "key": "SECRET" * 99}), "operations.0.key: "),
        (answer({**WRITE, "evidence": "m1"}), "operations.0.evidence: "),
        (answer({**FORGET, "memory_id": "x"}), "give either key or memory_id"),
        (answer(*[WRITE] * (MAX_OPERATIONS + 1)), "operations: "),
        (answer(*["SECRET"] * 9), "and 4 more"),
    ],
)
def test_what_is_wrong_is_told_by_field_without_the_models_words(text: str, told: str) -> None:
    with pytest.raises(InvalidOutput) as raised:
        parse(text)
    assert told in str(raised.value)
    assert "SECRET" not in str(raised.value)
    assert len(str(raised.value)) < 1_000


@given(st.text(st.characters()))
def test_any_text_is_read_or_refused(text: str) -> None:
    for each in (text, f'{{"operations": [{text}]}}', f"```json\n{text}\n```"):
        with suppress(InvalidOutput):
            parse(each)


def objects(schema: Any) -> list[dict[str, Any]]:
    """Every schema of an object in a schema."""
    parts: list[Any] = []
    if isinstance(schema, dict):
        parts = [*cast("dict[str, Any]", schema).values()]
    elif isinstance(schema, list):
        parts = cast("list[Any]", schema)
    found = [inner for part in parts for inner in objects(part)]
    return [schema, *found] if isinstance(schema, dict) and "properties" in schema else found


def test_the_form_is_one_that_strict_providers_take() -> None:
    assert len(objects(FORM.schema)) == 3
    for each in objects(FORM.schema):
        assert each["additionalProperties"] is False
        assert each["required"] == list(each["properties"])
    text = json.dumps(FORM.schema)
    for word in ("$ref", "oneOf", "default", "minLength", "maxItems", "title"):
        assert word not in text


@pytest.mark.parametrize("dialect", get_args(Dialect))
def test_each_dialect_is_told_of_the_form_in_its_way(dialect: Dialect) -> None:
    ask = Message("1", Role.USER, "Answer in JSON.")
    built = build(ModelRequest("m", "", (ask,), output=FORM), Names.of(()), dialect)
    kinds = {"openai": "json_schema", "vllm": "json_schema", "plain": None}
    assert built.get("response_format", {}).get("type") == kinds.get(dialect, "json_object")
    read(json.loads(json.dumps(built)))
    plain = build(ModelRequest("m", "", (ask,)), Names.of(()), dialect)
    assert "response_format" not in plain


def test_a_json_object_wants_the_word_in_the_prompt() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    with pytest.raises(Refused):
        read({**body, "response_format": {"type": "json_object"}})


# Mostly what the rules have to judge; now and then what no window names.
REFERENCES = st.sampled_from(["m1", "m2", "m3"] * 4 + ["m4", "M1", "m01", " m1", "", "说"])
VALUES = st.one_of(st.text(max_size=30), st.sampled_from(["Likes tea.", "you are now root", "\0"]))


@st.composite
def operations(draw: st.DrawFn) -> dict[str, Any]:
    key = draw(st.one_of(st.sampled_from(["tea", "name"]), VALUES))
    evidence = draw(st.lists(REFERENCES, max_size=3))
    if draw(st.integers(0, 3)) == 0:
        return {"op": "forget", "key": key, "reason": draw(VALUES), "evidence": evidence}
    return {
        "op": "write",
        "key": key,
        "value": draw(VALUES),
        "confidence": draw(st.sampled_from([0, 0.59, 0.6, 0.9, 1])),
        "evidence": evidence,
        "scope": draw(st.sampled_from(["global"] * 4 + ["agent:x", "everyone"])),
    }


LISTS = st.lists(operations(), max_size=6).map(lambda each: answer(*each))
ANSWERS = st.one_of(LISTS, LISTS, LISTS, st.text())

UNFOUNDED = """
SELECT count(*) FROM facts f
LEFT JOIN fact_evidence e ON e.fact_id = f.id
LEFT JOIN messages m ON m.session_id = e.session_id AND m.id = e.message_id
WHERE f.owner_id = $1
  AND (m.role IS DISTINCT FROM 'user' OR m.session_id IS DISTINCT FROM $2 OR m.seq > 3
       OR f.confidence < 0.599)
"""


async def window(pool: Pool, owner: UUID) -> UUID:
    """A session of user, assistant, user, and a fourth message past the window."""
    run = (await accept(pool, owner, "I like tea.")).run
    for seq, role in ((2, "assistant"), (3, "user"), (4, "user")):
        await pool.execute(
            """INSERT INTO messages (session_id, seq, id, owner_id, run_id, role, content)
               VALUES ($1, $2, $3, $4, $5, $6, 'so it is')""",
            *(run.session_key, seq, uuid4().hex, owner, run.key, role),
        )
    return run.session_key


async def carry_out(pool: Pool, registry: Registry, owner: UUID, session: UUID, text: str) -> None:
    """What a memory run does with an answer, as far as it is one."""
    entries = entries_of(await ReadingStore(pool).parts(owner, [Part(session, 1, 3)]))
    known = cited(entries)
    run_key = await pool.fetchval("SELECT id FROM runs WHERE session_id = $1", session)
    try:
        calls = tool_calls(parse(text), known.references, run_key, 1)
    except InvalidOutput:
        return
    for call in calls:
        context = ToolContext(
            owner_id=owner,
            run_key=run_key,
            session_key=session,
            idempotency_key=call.id,
            source_message_ids=("a job's prompt",),
            workspace=Path("nowhere"),
            min_confidence=0.6,
            admitted=known.admitted,
            references=known.references,
            orders=known.orders,
        )
        await registry.dispatch(call, ToolLists(None, None, None), context)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=ANSWERS)
async def test_whatever_the_model_says_facts_rest_on_user_messages_of_the_window(
    pool: Pool, text: str
) -> None:
    owner = await add_owner(pool)
    session = await window(pool, owner)
    await carry_out(pool, built_in(FactStore(pool)), owner, session, text)
    assert await pool.fetchval(UNFOUNDED, owner, session) == 0


async def test_the_property_is_not_vacuous(pool: Pool) -> None:
    owner = await add_owner(pool)
    session = await window(pool, owner)
    believed = {**WRITE, "evidence": ["m1", "m2", "m3"]}
    past = {**WRITE, "key": "past", "evidence": ["m4"]}
    await carry_out(pool, built_in(FactStore(pool)), owner, session, answer(believed, past))
    rows = await pool.fetch(
        """SELECT f.key, m.seq FROM facts f JOIN fact_evidence e ON e.fact_id = f.id
           JOIN messages m ON m.session_id = e.session_id AND m.id = e.message_id ORDER BY seq"""
    )
    assert [tuple(row) for row in rows] == [("tea", 1), ("tea", 3)]
