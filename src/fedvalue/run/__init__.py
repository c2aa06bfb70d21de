"""Runs: the only room that knows both estimators and games.

`value` and `compare` drive methods on a game; a `Job` is the whole main job, from the data to the report.
"""

from fedvalue.run._agreed import agreement_on, payout_terms_of, refuse_other_terms
from fedvalue.run._agreed_words import agreement_lines
from fedvalue.run._benchmark import Benchmark, Score, benchmark
from fedvalue.run._claims import Claims, what_if_claimed
from fedvalue.run._disclosures import add_disclosure, read_disclosures
from fedvalue.run._dry_run import DryRun, planned_trials, stored_trials
from fedvalue.run._finished import facts_of_run, payout_of_run
from fedvalue.run._folder import (
    AGREEMENT_FILE,
    DISCLOSURE_FILE,
    EARLIER,
    EVIDENCE_FILE,
    RECORD_FILE,
    REPORT_FILE,
    STORE_FILE,
    VALUES_FILE,
    find_history,
    find_store,
    is_within,
    keep_earlier,
    read_record,
    read_values,
    refuse_signed,
    seen_from,
)
from fedvalue.run._job import Job, run
from fedvalue.run._ledger import Ledger
from fedvalue.run._methods import (
    MethodLike,
    as_method,
    check_options,
    default_budget,
    default_method,
    methods,
    runnable_methods,
)
from fedvalue.run._observers import Evaluation, Observer
from fedvalue.run._prepare import RULES
from fedvalue.run._progress_file import PROGRESS_FILE, Node, Progress, ProgressFile, read_progress
from fedvalue.run._requests import (
    by_index,
    grouped,
    refuse_two_ways,
    usual_method,
    with_least,
    with_own_seeds,
    with_seeds,
)
from fedvalue.run._requests import request as method_request
from fedvalue.run._result import Result
from fedvalue.run._reuse import sparing
from fedvalue.run._valuation import compare, run_requests, value
from fedvalue.run._words import heading

__all__ = [
    "DISCLOSURE_FILE",
    "AGREEMENT_FILE",
    "EARLIER",
    "EVIDENCE_FILE",
    "PROGRESS_FILE",
    "RECORD_FILE",
    "REPORT_FILE",
    "RULES",
    "STORE_FILE",
    "VALUES_FILE",
    "Benchmark",
    "Claims",
    "DryRun",
    "Evaluation",
    "Job",
    "Ledger",
    "Node",
    "Observer",
    "Progress",
    "ProgressFile",
    "Result",
    "Score",
    "add_disclosure",
    "agreement_lines",
    "MethodLike",
    "agreement_on",
    "as_method",
    "benchmark",
    "check_options",
    "compare",
    "default_budget",
    "default_method",
    "facts_of_run",
    "find_history",
    "find_store",
    "by_index",
    "grouped",
    "heading",
    "is_within",
    "keep_earlier",
    "method_request",
    "methods",
    "payout_of_run",
    "payout_terms_of",
    "planned_trials",
    "read_disclosures",
    "read_progress",
    "read_record",
    "read_values",
    "refuse_other_terms",
    "refuse_signed",
    "refuse_two_ways",
    "run",
    "run_requests",
    "seen_from",
    "runnable_methods",
    "sparing",
    "stored_trials",
    "value",
    "usual_method",
    "what_if_claimed",
    "with_least",
    "with_own_seeds",
    "with_seeds",
]
