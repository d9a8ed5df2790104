"""Faults on a real stack of separate processes."""

import pytest

pytest.register_assert_rewrite("tests.e2e.client", "tests.e2e.stack")
