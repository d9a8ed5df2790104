"""Time zones by name: those that mean the same on every machine. Pure, beside the zone database."""

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from domain.errors import InvalidInput

# In the database of some systems: whatever this machine is set to, or a file without a zone.
_NOWHERE = frozenset({"localtime", "posixrules", "Factory"})


def zone_of(name: str) -> ZoneInfo:
    """The zone of this IANA name. Raises InvalidInput ("timezone")."""
    try:
        if name in _NOWHERE or name.startswith(("posix/", "right/")):
            raise ValueError(name)
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        message = f"{name[:100]!r} is not a time zone of the IANA list."
        raise InvalidInput("timezone", message) from error
