"""Certificates for a server on this machine, signed by their own authority. Needs openssl."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.servers.process import HOST

DAYS: Final = "2"
KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
SIGNS: Final = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
EXTENSIONS: Final = f"subjectAltName=IP:{HOST},DNS:localhost\nauthorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n"
"""Python asks for the use of the key and for the identifiers since 3.13."""


@dataclass(frozen=True)
class Certificates:
    """Certificate files in PEM format."""

    ca: Path
    """Certificate of the authority, for clients."""
    key_and_certificate: Path
    """Certificate and key of the server."""

    @staticmethod
    def made_in(folder: Path) -> "Certificates":
        """Return the certificates in a folder. Makes them the first time. Raises RuntimeError without openssl."""
        made = Certificates(folder / "ca.pem", folder / "server.pem")
        if not made.key_and_certificate.exists():
            if shutil.which("openssl") is None:
                raise RuntimeError("openssl is not installed, which makes the certificates: scripts/install-system-packages openssl")
            _make(folder, made)
        return made


def _make(folder: Path, made: Certificates) -> None:
    _openssl(folder, "req", "-x509", *KEY, *SIGNS, "-keyout", "ca.key", "-out", "ca.pem", "-days", DAYS, "-subj", "/CN=tests of stormcell")
    _openssl(folder, "req", *KEY, "-keyout", "server.key", "-out", "server.csr", "-subj", f"/CN={HOST}")
    (folder / "extensions").write_text(EXTENSIONS)
    signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "extensions", "-days", DAYS)
    _openssl(folder, "x509", "-req", "-in", "server.csr", "-out", "server.crt", *signing)
    made.key_and_certificate.write_text((folder / "server.key").read_text() + (folder / "server.crt").read_text())


def _openssl(folder: Path, *arguments: str) -> None:
    said = subprocess.run(["openssl", *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    if said.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]} failed in {folder}: {said.stderr[-1000:]}")
