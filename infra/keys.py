"""The key that opens our nodes: `MEGATOK_HOME/keys/id_ed25519`, made at first use."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from infra.engine.settings import keep_first
from spec.errors import Unfit
from spec.home import home


def key_file() -> Path:
    """The private key; mode 600."""
    folder = home() / "keys"
    folder.mkdir(mode=0o700, exist_ok=True)
    final = folder / "id_ed25519"
    if not final.exists():
        keep_first(final, Ed25519PrivateKey.generate().private_bytes(*_OPENSSH, serialization.NoEncryption()))
    return final


def public_key(private: Path) -> str:
    """`ssh-ed25519 AAAA...` of a private key."""
    try:
        key = serialization.load_ssh_private_key(private.read_bytes(), password=None)
    except (ValueError, OSError) as error:
        raise Unfit(f"{private} cannot be read as a key: {error}; move it away and a new one is made") from None
    return key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()


_OPENSSH = serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH
