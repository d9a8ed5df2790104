"""Connect to Temporal. Every process uses this, so every process speaks the same data format."""

from typing import Any

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.common import SearchAttributeIndexedValueType, SearchAttributeKey
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import CompositePayloadConverter, DataConverter
from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig
from temporalio.service import RPCError, RPCStatusCode

from domain import attributes

SEARCH_ATTRIBUTES: tuple[SearchAttributeKey[Any], ...] = (
    *(SearchAttributeKey.for_keyword(name) for name in attributes.Keyword),
    SearchAttributeKey.for_int(attributes.COST_MICRO_USD),
)
"""Ids, enums and one number: what an operator may filter by. Never text that somebody wrote."""

_TYPES = {
    SearchAttributeIndexedValueType.KEYWORD: "Keyword",
    SearchAttributeIndexedValueType.INT: "Int",
}


_CONVERTERS = tuple(PydanticPayloadConverter().converters.values())


class SharedPayloadConverter(CompositePayloadConverter):
    """Pydantic's converter, one for the process: the engine makes one for every workflow, each of
    which would build the type adapters of a run anew."""

    def __init__(self) -> None:
        super().__init__(*_CONVERTERS)


DATA_CONVERTER = DataConverter(payload_converter_class=SharedPayloadConverter)


def measured(address: str) -> Runtime:
    """A runtime that serves the SDK's metrics for Prometheus at this host:port."""
    return Runtime(telemetry=TelemetryConfig(metrics=PrometheusConfig(bind_address=address)))


async def connect(address: str, namespace: str, runtime: Runtime | None = None) -> Client:
    """A client whose namespace exists. Raises what temporalio raises when it cannot connect."""
    client = await Client.connect(
        address, namespace=namespace, data_converter=DATA_CONVERTER, runtime=runtime
    )
    await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=namespace))
    return client


def search_attribute_type(key: SearchAttributeKey[Any]) -> str:
    """The type's name as Temporal's command line and UI write it."""
    return _TYPES[key.indexed_value_type]


async def ensure_search_attributes(client: Client) -> None:
    """Register what the namespace lacks. Safe to call twice and from two processes at once."""
    listed = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    missing = {
        key.name: IndexedValueType.Value(f"INDEXED_VALUE_TYPE_{search_attribute_type(key).upper()}")
        for key in SEARCH_ATTRIBUTES
        if key.name not in listed.custom_attributes
    }
    if not missing:
        return
    try:
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(namespace=client.namespace, search_attributes=missing)
        )
    except RPCError as error:
        if error.status is not RPCStatusCode.ALREADY_EXISTS:
            raise
