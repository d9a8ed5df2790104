"""Put a run's question to whoever sits at the terminal."""

import json
from typing import Any

from cli.output import aside, console

_CALL = "[y]es, [s]ession (don't ask again for the same call), [e]dit, [n]o"


def put(question: dict[str, Any]) -> dict[str, Any]:
    """An AG-UI interrupt in, an entry of `resume` out. Ctrl-D gives up."""
    aside.print(f"\n{question.get('message', '')}", markup=False)
    try:
        payload = _call() if question["reason"] == "tool_call" else _other(question)
    except EOFError:
        payload = None
    entry = {"interruptId": question["id"]}
    if payload is None:
        return {**entry, "status": "cancelled"}
    return {**entry, "status": "resolved", "payload": payload}


def _call() -> dict[str, Any]:
    while True:
        match console.input(f"[bold]{_CALL.replace('[', chr(92) + '[')}: [/bold]").strip().lower():
            case "y" | "yes":
                return {"approved": True}
            case "s" | "session":
                return {"approved": True, "forSession": True}
            case "n" | "no":
                reason = console.input("Why not (the agent reads it): ").strip()
                return {"approved": False, **({"reason": reason} if reason else {})}
            case "e" | "edit":
                try:
                    arguments = json.loads(console.input("Arguments, as JSON: "))
                except ValueError as error:
                    aside.print(f"That is no JSON: {error}", style="red", markup=False)
                    continue
                return {"approved": True, "editedArgs": arguments}
            case _:
                continue


def _other(question: dict[str, Any]) -> dict[str, Any]:
    actions: list[dict[str, str]] = question.get("metadata", {}).get("actions", [])
    for place, action in enumerate(actions, 1):
        aside.print(f"  {place}. {action['label']}", markup=False)
    texts = [action for action in actions if action["type"] == "text_input"]
    while True:
        said = console.input("[bold]A number, or your answer: [/bold]").strip()
        if said.isdecimal() and 1 <= int(said) <= len(actions):
            action = actions[int(said) - 1]
            if action["type"] != "text_input":
                return {"action": action["id"]}
            said = console.input(f"{action['label']}: ").strip()
            texts = [action]
        if said and texts:
            return {"action": texts[0]["id"], "input": said}
