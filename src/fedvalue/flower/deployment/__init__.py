"""A safe deployment: certificates, a SuperLink on the loopback interface, a proxy, clients known by their keys.

_certificates  an authority of the consortium, and a certificate for its server
_signing       apps with the operator's signature, which nodes ask for
_files         the folder of a deployment: `deploy`, `renew`
_link          the SuperLink by its Control API
_operate       what an operator does with it: `register`, `run_deployment`, `plan_deployment`
"""

from __future__ import annotations

from fedvalue.flower.deployment._files import Deployment, deploy, renew
from fedvalue.flower.deployment._operate import plan_deployment, register, run_deployment

__all__ = ["Deployment", "deploy", "plan_deployment", "register", "renew", "run_deployment"]
