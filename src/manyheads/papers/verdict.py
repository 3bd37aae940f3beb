"""Verdict: a claim of the paper beside what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["reproduced", "differs", "not attempted"]


@dataclass(frozen=True)
class Verdict:
    """One line of the table of claims: what the paper says, what came out, and what that means."""

    claim: str  # its number in the table of claims
    says: str
    measured: str
    outcome: Outcome
    why: str = ""  # by which yardstick, and where it differs the likeliest reason


def judged(claim: str, says: str, measured: str, holds: bool, why: str = "") -> Verdict:
    """Reproduced where the yardstick holds, else differing."""
    return Verdict(claim, says, measured, "reproduced" if holds else "differs", why)


def missing(claim: str, says: str, why: str) -> Verdict:
    """A claim whose runs are not there."""
    return Verdict(claim, says, "", "not attempted", why)
