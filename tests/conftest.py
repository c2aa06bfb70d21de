"""Settings that all tests share."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

# The same examples on every machine and every day; no deadline, because the machines differ in speed.
settings.register_profile("reproducible", derandomize=True, deadline=None, database=None)
settings.load_profile("reproducible")


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Small trainings on one thread: several threads of a shared machine wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
