"""Ed25519 keys in the format of OpenSSH: `ssh-keygen -t ed25519` makes them, too."""

from __future__ import annotations

import base64
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedvalue._extras import need
from fedvalue._text import one_line
from fedvalue.errors import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

__all__ = ["is_signed_by", "key_line", "make_key", "public_line", "read_public_line", "sign_with"]

_WHAT = "Signing"


def make_key(path: Path) -> Path:
    """A new key pair: the private key in this file, the public one beside it with the ending .pub.

    Where the private key is there and the public one is not, as after a kill, the public one is written.
    """
    public = path.with_name(f"{path.name}.pub")
    if path.exists() and public.exists():
        raise InputError(f"{path} exists already, and a key is never overwritten. Choose another name.")
    try:
        if not path.exists():
            _new_private(path)
        public.write_text(key_line(_private(path)) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"Cannot write the key {path}: {error.strerror}.") from error
    return public


def _new_private(path: Path) -> None:
    """The file appears whole; one that is there is not replaced."""
    ed25519 = need("cryptography.hazmat.primitives.asymmetric.ed25519", _WHAT)
    form = need("cryptography.hazmat.primitives.serialization", _WHAT)
    key = ed25519.Ed25519PrivateKey.generate()
    secret = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())
    draft = path.with_name(f".{path.name[:64]}.{os.getpid()}.part")
    try:
        # Nobody else may read it, from the first byte on.
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(secret)
        os.link(draft, path)
    finally:
        with suppress(OSError):
            draft.unlink()


def key_line(key: Ed25519PrivateKey) -> str:
    """The public key as a line of text."""
    form = need("cryptography.hazmat.primitives.serialization", _WHAT)
    return str(key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH).decode())


def read_public_line(path: Path) -> str:
    """The public key in a file."""
    try:
        return public_line(path.read_text(encoding="utf-8"), f"the key in {path}")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Cannot read the public key {path}: {error}.") from error


def public_line(text: str, what: str) -> str:
    """A public key without comment and line end; anything else is refused."""
    words = text.split()
    line = " ".join(words[:2])
    _public(line, what)
    return line


def sign_with(path: Path, message: bytes) -> tuple[str, str]:
    """The public key of the private key in a file, and its signature under a message."""
    key = _private(path)
    return key_line(key), base64.b64encode(key.sign(message)).decode()


def is_signed_by(line: str, signature: str, message: bytes) -> bool:
    """Whether the owner of a public key has signed this message."""
    invalid = need("cryptography.exceptions", _WHAT).InvalidSignature
    try:
        given = base64.b64decode(signature, validate=True)
        if base64.b64encode(given).decode() != signature:  # the same bytes can be written in several ways
            return False
        _public(line, "a key").verify(given, message)
    except (invalid, InputError, ValueError, TypeError):
        return False
    return True


def _private(path: Path) -> Ed25519PrivateKey:
    form = need("cryptography.hazmat.primitives.serialization", _WHAT)
    ed25519 = need("cryptography.hazmat.primitives.asymmetric.ed25519", _WHAT)
    try:
        key: Any = form.load_ssh_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise InputError(f"Cannot read the key {path}: {error.strerror}.") from error
    except TypeError as error:
        raise InputError(
            f"{path} is protected by a passphrase, which is not asked for here. Sign with a key that has none."
        ) from error
    except Exception as error:  # ValueError, UnsupportedAlgorithm, and what the parser makes of other bytes
        raise InputError(_expected(str(path), "private")) from error
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise InputError(_expected(str(path), "private"))
    found: Ed25519PrivateKey = key
    return found


def _public(line: str, what: str) -> Ed25519PublicKey:
    form = need("cryptography.hazmat.primitives.serialization", _WHAT)
    ed25519 = need("cryptography.hazmat.primitives.asymmetric.ed25519", _WHAT)
    try:
        key: Any = form.load_ssh_public_key(line.encode())
    except Exception as error:  # ValueError, UnsupportedAlgorithm, and what the parser makes of other bytes
        raise InputError(_expected(what, "public", line)) from error
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise InputError(_expected(what, "public", line))
    found: Ed25519PublicKey = key
    return found


def _expected(what: str, kind: str, came: str = "") -> str:
    text = f"Expected {what} to be a {kind} Ed25519 key as `fedvalue agreement key` or `ssh-keygen -t ed25519` writes it."
    return text + (f" Got {one_line(came)[:40]!r}." if came else "")
