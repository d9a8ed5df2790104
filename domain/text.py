"""Text that any store and any encoder accepts. Pure."""

import re

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def clean(text: str) -> str:
    """Replace NUL (PostgreSQL refuses it) and lone surrogates (UTF-8 refuses them) by U+FFFD."""
    return _UNSTORABLE.sub("�", text) if _UNSTORABLE.search(text) else text
