"""A certificate authority of the consortium, and a certificate for its SuperLink and the proxy before it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedvalue.errors import InputError

__all__ = ["KeyPair", "make_authority", "make_server_certificate", "renew_server_certificate", "write_secret"]

_AUTHORITY_DAYS = 3650
_SKEW = timedelta(hours=1)  # clocks of others that are behind


@dataclass(frozen=True)
class KeyPair:
    """The files of a private key and of the certificate that goes with it."""

    key: Path
    certificate: Path


def make_authority(authority: KeyPair) -> None:
    """A new authority. Whoever has its key can pose as the SuperLink."""
    key = ec.generate_private_key(ec.SECP384R1())
    name = _named("Consortium")
    builder = (
        _unsigned(name, name, key, key.public_key(), _AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
    )
    _write(authority, key, builder.sign(key, hashes.SHA256()))


def make_server_certificate(authority: KeyPair, server: KeyPair, hosts: Sequence[str], days: int) -> datetime:
    """A new key and its certificate for these names and addresses, signed by the authority; until when it is valid."""
    try:
        signer: Any = load_pem_private_key(authority.key.read_bytes(), None)
        issuer = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    except OSError as error:
        raise InputError(f"Cannot read {error.filename}: {error.strerror}.") from error
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _unsigned(_named(hosts[0]), issuer.subject, key, signer.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(host) for host in hosts]), critical=False)
    )
    certificate = builder.sign(signer, hashes.SHA256())
    _write(server, key, certificate)
    return certificate.not_valid_after_utc


def renew_server_certificate(authority: KeyPair, server: KeyPair, days: int) -> datetime:
    """Another key and certificate for the names and addresses of the present one, which they replace."""
    try:
        present = x509.load_pem_x509_certificate(server.certificate.read_bytes())
    except OSError as error:
        raise InputError(f"Cannot read {error.filename}: {error.strerror}.") from error
    names = present.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    draft = KeyPair(server.key.with_suffix(".new-key"), server.certificate.with_suffix(".new-crt"))
    draft.key.unlink(missing_ok=True)  # of an attempt that was interrupted
    until = make_server_certificate(authority, draft, [str(name.value) for name in names], days)
    draft.key.replace(server.key)
    draft.certificate.replace(server.certificate)
    return until


def write_secret(path: Path, content: bytes) -> None:
    """A new file that only its owner can read; one that is there is never written over."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise InputError(f"There is a {path} already. Keys are not written over.") from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _write(pair: KeyPair, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    write_secret(pair.key, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    pair.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))


def _unsigned(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePublicKey,
    days: int,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
    )


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(**granted: bool) -> x509.KeyUsage:
    kinds = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
        "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{kind: granted.get(kind, False) for kind in kinds})
