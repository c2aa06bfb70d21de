"""Every claim of the paper's text as data, with the check that judges it on committed results."""

from fedvalue_paper.claims.registry import Claim, Judged, judge, read_claims
from fedvalue_paper.claims.results import read_results

__all__ = ["Claim", "Judged", "judge", "read_claims", "read_results"]
