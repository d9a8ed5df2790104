"""Jobs and their slots in the terminal."""

from calendar import day_name
from typing import Any

from cli.output import aside, console, show_json, show_rows

SHORT = 8  # characters of an id that is shown; enough to name a job by
MINUTES = len("2026-12-01T10:00")

COLUMNS = ("id", "title", "when", "status", "next", "last slot", "missed")


def row_of(job: dict[str, Any]) -> list[object]:
    last = job["last_slot"]
    return [
        job["id"][:SHORT],
        job["title"],
        _when(job),
        job["status"],
        (job["next_run_local"] or "")[:MINUTES].replace("T", " "),
        f"{last['slot']} {last['status']}" if last else None,
        len(job["missed"]) or None,
    ]


def _when(job: dict[str, Any]) -> str:
    day = f" on {day_name[job['weekday'] - 1]}s" if job["weekday"] else ""
    return f"{job['schedule_type']} {job['run_at']}{day} {job['timezone']}"


def show_job(job: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show_json(job)
        return
    told = {**dict(zip(COLUMNS, row_of(job), strict=True)), "id": job["id"]}
    told["missed"] = ", ".join(job["missed"])
    told |= {"profile": job["execution_profile"], "tools": ", ".join(job["config"]["tools"])}
    told["prompt"] = job["config"]["prompt"]
    for name, value in told.items():
        if value:
            console.print(f"{name:<9}  {value}", markup=False, soft_wrap=True)
    if job.get("schedule_in_sync") is False:
        aside.print("The engine is away; it learns of this when it is back.", style="yellow")


def show_asked(asked: dict[str, Any], said: str, as_json: bool) -> None:
    if as_json:
        show_json(asked)
    else:
        console.print(said, markup=False, soft_wrap=True)


def show_slots(slots: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        show_json(slots)
        return
    columns = ("slot", "status", "attempt", "windows", "messages", "started (UTC)", "error")
    show_rows(
        columns,
        [
            [
                *(slot["slot"], slot["status"], slot["attempt"], len(slot["windows"])),
                sum(window["user_messages"] for window in slot["windows"]),
                *(slot["started_at"][:MINUTES].replace("T", " "), slot["error_message"]),
            ]
            for slot in slots
        ],
    )
