"""Examples for the OpenAPI document."""

from typing import Any

SSE: dict[str, Any] = {
    "text/event-stream": {
        "schema": {"type": "string", "description": "One AG-UI event per `data:` line"},
        "example": (
            'id: 10000000\ndata: {"type":"RUN_STARTED","threadId":"t1","runId":"r1",'
            '"protocolVersion":"1.0","timestamp":1790000000000}\n\n'
        ),
    }
}

RUN_INPUT: dict[str, Any] = {
    "requestBody": {
        "content": {
            "application/json": {
                "examples": {
                    "chat": {
                        "summary": "A message to a session",
                        "value": {
                            "threadId": "t1",
                            "runId": "r1",
                            "protocolVersion": "1.0",
                            "messages": [{"id": "m1", "role": "user", "content": "What is 2+3?"}],
                            "tools": [],
                            "context": [],
                            "state": {},
                            "forwardedProps": {},
                        },
                    },
                    "options": {
                        "summary": "With a profile and a tool list",
                        "value": {
                            "threadId": "t1",
                            "runId": "r2",
                            "messages": [{"id": "m2", "role": "user", "content": "And my name?"}],
                            "forwardedProps": {
                                "varve": {"profile": "chat_default", "tools": ["memory_search"]}
                            },
                        },
                    },
                }
            }
        }
    }
}
