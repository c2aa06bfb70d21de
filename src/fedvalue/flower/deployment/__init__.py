"""A safe deployment: certificates, a SuperLink on the loopback interface, a proxy, clients known by their keys.

_certificates  an authority of the consortium, and a certificate for its server
_signing       apps with the operator's signature, which nodes ask for
_checklist     CHECKLIST.md, and its part about the clients, which follows the roster
_texts         templates of the files
_files         the folder of a deployment: `deploy`, `join`, `renew`
_link          the SuperLink by its Control API
_operate       what an operator does with it: `register`, `leave`, `run_deployment`, `plan_deployment`
"""

from __future__ import annotations

from fedvalue.flower.deployment._files import Deployment, deploy, join, renew
from fedvalue.flower.deployment._operate import leave, plan_deployment, register, run_deployment

__all__ = [
    "Deployment",
    "deploy",
    "join",
    "leave",
    "plan_deployment",
    "register",
    "renew",
    "run_deployment",
]
