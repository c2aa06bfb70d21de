"""Settings that all tests share."""

from hypothesis import settings

# The same examples on every machine and every day; no deadline, because the machines differ in speed.
settings.register_profile("reproducible", derandomize=True, deadline=None, database=None)
settings.load_profile("reproducible")
