"""Apps with the operator's signature: nodes that are started with `--trusted-entities` run these and no others.

Flower takes signatures from its Hub. Here the operator signs with a key of the deployment, in the same form, and no
other machine has to be asked.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from fedvalue.errors import InputError
from fedvalue.flower.deployment._certificates import write_secret

__all__ = ["make_signing_key", "signatures", "trusted_entities"]


def make_signing_key(path: Path) -> None:
    """A new key in the format of OpenSSH."""
    key = Ed25519PrivateKey.generate()
    write_secret(path, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))


def trusted_entities(path: Path) -> str:
    """The file for nodes that shall run what this key has signed, and nothing else."""
    line = _public_line(_key(path))
    return (
        f"# Apps that this node runs: those that one of these keys has signed.\n{_number(line)}: '{line}'\n"
    )


def signatures(content: bytes, path: Path) -> dict[str, str]:
    """What proves to nodes that the bundle of an app may run, as Flower stores it beside the bundle."""
    from flwr.supercore.primitives.asymmetric_ed25519 import create_message_to_sign

    key, now = _key(path), int(time.time())
    message = create_message_to_sign(hashlib.sha256(content).digest(), now)
    signature = base64.urlsafe_b64encode(key.sign(message)).decode()
    proof = json.dumps({"signature": signature, "signed_at": now})
    return {
        _number(_public_line(key)): proof,
        "valid_license": "Valid",
    }  # without the latter nodes do not look at it


def _key(path: Path) -> Ed25519PrivateKey:
    from flwr.supercore.primitives.asymmetric_ed25519 import load_private_key

    try:
        return load_private_key(path)
    except OSError as error:
        raise InputError(f"Cannot read the key that signs apps, {path}: {error.strerror}.") from error
    except ValueError as error:
        raise InputError(f"{path} is not an Ed25519 key as `ssh-keygen -t ed25519` writes it.") from error


def _public_line(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def _number(line: str) -> str:
    return f"fpk_{hashlib.sha256(line.encode()).hexdigest()[:32]}"
