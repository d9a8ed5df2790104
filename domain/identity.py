"""Who is calling, and what they may do. Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID


class UserRole(StrEnum):
    USER = "user"
    OPERATOR = "operator"
    ADMIN = "admin"

    @property
    def operates(self) -> bool:
        """Whether this role sees every owner's audit, acts on their jobs, changes rollouts."""
        return self in (UserRole.OPERATOR, UserRole.ADMIN)


class Scope(StrEnum):
    """What a key may be used for, within what its user's role allows."""

    RUNS_READ = "runs:read"
    RUNS_WRITE = "runs:write"
    MEMORY_READ = "memory:read"
    MEMORY_WRITE = "memory:write"
    JOBS_READ = "jobs:read"
    JOBS_WRITE = "jobs:write"
    AUDIT_READ = "audit:read"
    PROFILES_WRITE = "profiles:write"


ALL_SCOPES: tuple[Scope, ...] = tuple(Scope)
DEFAULT_SCOPES: tuple[Scope, ...] = (
    *(Scope.RUNS_READ, Scope.RUNS_WRITE),
    *(Scope.MEMORY_READ, Scope.MEMORY_WRITE),
    *(Scope.JOBS_READ, Scope.JOBS_WRITE),
)


@dataclass(frozen=True, slots=True)
class User:
    id: UUID
    name: str  # unique
    role: UserRole
    locale: str
    timezone: str  # IANA name
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is kept, without its secret. `prefix` is shown to tell keys apart."""

    id: UUID
    user_id: UUID
    prefix: str
    scopes: tuple[Scope, ...]
    loopback_only: bool
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class Caller:
    """The identity behind one request."""

    user: User
    scopes: frozenset[Scope]

    @property
    def id(self) -> UUID:
        return self.user.id

    @property
    def role(self) -> UserRole:
        return self.user.role
