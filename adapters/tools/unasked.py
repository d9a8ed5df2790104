"""What a tool that is a question does where nobody can be asked."""

import json

from adapters.tools.registry import Arguments, ToolContext


async def unasked(arguments: Arguments, context: ToolContext) -> str:
    """Only MCP clients and older workers get here: a run puts the question to people instead."""
    return json.dumps(
        {
            "status": "not_asked",
            "instruction": "Nobody can be asked here. Decide yourself, and say in your answer "
            "what you assumed.",
        }
    )
