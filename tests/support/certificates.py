"""A throw-away certificate authority and a server certificate for loopback, made with the openssl program."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Certificates:
    """Files in PEM form; `ca` is what a client must trust."""

    ca: Path
    certificate: Path
    key: Path

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context

    def expired(self, folder: Path) -> Certificates:
        """The same with a server certificate whose last day was yesterday."""
        old = folder / "expired.pem"
        request, extensions = self.ca.parent / "server.csr", self.ca.parent / "extensions"
        words = ["openssl", "x509", "-req", "-in", str(request), "-CA", str(self.ca), "-CAkey", str(self.ca_key)]
        words += ["-CAcreateserial", "-out", str(old), "-days", "-1", "-extfile", str(extensions)]
        subprocess.run(words, check=True, capture_output=True)
        return Certificates(self.ca, old, self.key)

    @property
    def ca_key(self) -> Path:
        return self.ca.with_name("ca.key")

    def hashed(self, folder: Path) -> Path:
        """The new folder with the authority in it, named as OpenSSL looks for it."""
        words = ["openssl", "x509", "-noout", "-subject_hash", "-in", str(self.ca)]
        name = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
        folder.mkdir()
        shutil.copy(self.ca, folder / f"{name}.0")
        return folder


def make_certificates(folder: Path) -> Certificates:
    """Make both in the folder; the test skips where there is no openssl program."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("needs the program openssl")

    def openssl(*arguments: str) -> None:
        subprocess.run([program, *arguments], cwd=folder, check=True, capture_output=True)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    # Newer Pythons take a certificate only if it says what its key is for, and which key signed it.
    authority = ("-days", "2", "-subj", "/CN=test CA", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", *authority)
    openssl("req", *curve, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    extensions = folder / "extensions"
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n"
    extensions.write_text(f"{names}keyUsage=digitalSignature\nauthorityKeyIdentifier=keyid\n")
    openssl(
        *("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"),
        *("-out", "server.pem", "-days", "2", "-extfile", "extensions"),
    )
    return Certificates(folder / "ca.pem", folder / "server.pem", folder / "server.key")
