"""Telling somebody of a run's end: what is sent, and how it is signed. Pure.

Signatures follow Standard Webhooks (standardwebhooks.com): HMAC-SHA256 of "{id}.{timestamp}.{body}"
under the secret, in base64.
"""

import base64
import hashlib
import hmac
import json
from datetime import datetime
from ipaddress import ip_address

from domain.runs import Run


def document(run: Run) -> str:
    """What is sent: how the run ended, and no word of what was said."""
    data = {
        "runId": run.run_id,
        "threadId": run.thread_id,
        "status": run.status,
        "errorCode": run.error_code,
        "limit": run.limit,
        "turns": run.turns,
        "usage": {
            "inputTokens": run.usage.input_tokens,
            "outputTokens": run.usage.output_tokens,
            "cachedTokens": run.usage.cached_tokens,
        },
        "finishedAt": _instant(run.finished_at),
    }
    body = {"type": f"run.{run.status}", "timestamp": _instant(run.finished_at), "data": data}
    return json.dumps(body, ensure_ascii=False)


def _instant(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def signed(secret: str, id: str, at_s: int, body: str) -> dict[str, str]:
    """The headers. `secret`: as it is, or `whsec_` and its base64."""
    key = secret.encode()
    if secret.startswith("whsec_"):
        key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{id}.{at_s}.{body}".encode(), hashlib.sha256).digest()
    return {
        "webhook-id": id,
        "webhook-timestamp": str(at_s),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def is_public(address: str) -> bool:
    """Whether an IP address is one of the open internet."""
    ip = ip_address(address.split("%", 1)[0])
    mapped = getattr(ip, "ipv4_mapped", None)
    return (mapped or ip).is_global and not ip.is_multicast
