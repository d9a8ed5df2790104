"""The sandbox that workflows run in: strict, and entered only to run them.

For every payload that a workflow takes or gives, the SDK asks the workflow which serialization
context belongs to it, and enters the sandbox for the answer. Our data converter has neither codec
nor contexts nor external storage, so the answer is never used; asking cost a tenth of a worker's
CPU. A converter that wants contexts has to take `ContextFree` out again.
"""

from dataclasses import dataclass
from typing import Any

from temporalio.converter import StorageDriverStoreContext
from temporalio.worker import WorkflowInstance
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions
from temporalio.workflow import SandboxImportNotificationPolicy as OnImport


class ContextFree(WorkflowInstance):
    """A workflow that says at once that its payloads need no context."""

    def __init__(self, inner: WorkflowInstance) -> None:
        self._inner = inner

    def activate(self, act: Any) -> Any:
        return self._inner.activate(act)

    def get_serialization_context(self, command_info: object) -> None:
        return None

    def get_external_store_context(self, command_info: object) -> StorageDriverStoreContext:
        return StorageDriverStoreContext()

    def get_info(self) -> Any:
        return self._inner.get_info()

    def get_thread_id(self) -> int | None:
        return self._inner.get_thread_id()


@dataclass(frozen=True)
class ContextFreeSandbox(SandboxedWorkflowRunner):
    def create_instance(self, det: Any) -> WorkflowInstance:
        return ContextFree(super().create_instance(det))


# A workflow file that forgets `imports_passed_through` fails at start-up, not in production.
STRICT_SANDBOX = ContextFreeSandbox(
    restrictions=SandboxRestrictions.default.with_import_notification_policy(
        OnImport.RAISE_ON_UNINTENTIONAL_PASSTHROUGH | OnImport.WARN_ON_DYNAMIC_IMPORT
    )
)
