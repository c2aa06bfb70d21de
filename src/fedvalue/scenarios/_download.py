"""Small files from the web with the standard library: https, and limits of size, time and redirects.

What a server sends is not trusted: every function here ends, and raises OSError or ValueError with a text
for people where something else came than was asked for.
"""

from __future__ import annotations

import gzip
import io
import ssl
import zlib
from http.client import HTTPException, HTTPMessage
from time import monotonic
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from fedvalue._text import size

__all__ = ["download", "unpacked"]

_PATIENCE = 30.0  # seconds without a byte
_LONGEST = 120.0  # seconds for the whole: a server that sends drop by drop never exhausts the patience


class _Redirects(HTTPRedirectHandler):
    """Few, and never to an address where anybody on the way could answer."""

    max_redirections = 3

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if not newurl.lower().startswith("https://"):
            raise HTTPError(req.full_url, code, "and leads to an address without https", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def download(url: str, most: int) -> bytes:
    """What lies at an https address, at most so many bytes; the certificate is checked."""
    opener = build_opener(HTTPSHandler(context=ssl.create_default_context()), _Redirects)
    until = monotonic() + _LONGEST
    received = bytearray()
    try:
        with opener.open(url, timeout=_PATIENCE) as reply:
            # read1 returns what is there; read would wait until a whole block has come.
            while block := reply.read1(1 << 16):
                received += block
                if len(received) > most:
                    raise ValueError(f"expected at most {size(most)}, more came")
                if monotonic() > until:
                    raise TimeoutError(f"not complete after {_LONGEST:g} s")
    except HTTPError as error:
        with error:  # it holds the connection
            raise OSError(f"the server answered {error.code} {error.reason}") from error
    except URLError as error:
        raise OSError(str(error.reason)) from error
    except HTTPException as error:
        raise OSError(f"the server's answer is not HTTP ({type(error).__name__}: {error})") from error
    return bytes(received)


def unpacked(data: bytes, most: int) -> bytes:
    """The content of a gzip file, at most so many bytes: a few kilobytes can unpack to gigabytes.

    >>> unpacked(gzip.compress(b"abc"), 3)
    b'abc'
    """
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            content = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(
            f"expected a complete gzip file, got {size(len(data))} of something else: {error}"
        ) from error
    if len(content) > most:
        raise ValueError(f"expected at most {size(most)} when unpacked, there is more")
    return content
