"""Who somebody is and what they may do: tokens, passwords, a proxy's word; hashes only."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from urllib.parse import urlsplit

from pydantic import SecretStr

from monitor.errors import SettingsError
from monitor.settings import Settings, variable
from monitor.settings.addresses import is_loopback

_SCRYPT_MARK = "scrypt$"
#: Verifying a password is slow on purpose; one that was right is believed for so long.
_BELIEVED_S = 300.0
_MOST_BELIEVED = 1_000
_FORM_VALID_S = 12 * 3600
_PARTS = 3


class Role(IntEnum):
    """What somebody may do; each may do what those before it may."""

    VIEWER = 1  #: figures, no transcripts
    READER = 2  #: transcripts, as the hook's mask left them
    OPERATOR = 3  #: label, test channels


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who asks; ``bearer`` when no browser can have sent it by itself."""

    name: str
    role: Role
    bearer: bool = False


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    role: Role
    secret_hash: str


@dataclass(slots=True)
class Access:
    """
    Who may come in, from the settings.

    Raises
    ------
    SettingsError
        If an entry is not of the form that ``groundwatch web --new-...`` prints.
    """

    settings: Settings
    tokens: list[_Entry] = field(init=False)
    users: list[_Entry] = field(init=False)
    _believed: dict[bytes, tuple[float, Principal]] = field(init=False, default_factory=dict)
    _key: bytes = field(init=False, default_factory=lambda: secrets.token_bytes(32))
    _form_key: bytes = field(init=False)

    def __post_init__(self) -> None:
        self._form_key = _shared_key(self.settings) or self._key
        self.tokens = _entries(self.settings.web_access.web_tokens, "web_tokens")
        self.users = _entries(self.settings.web_access.web_users, "web_users")
        _networks(self.settings.web_access.web_trusted_proxies)

    @property
    def is_open(self) -> bool:
        """Whether nobody is asked who they are; then only this machine may come in."""
        return not (self.tokens or self.users or self.settings.web_access.web_proxy_user_header)

    def identify(self, headers: Mapping[str, str], peer: str) -> Principal | None:
        """
        Tell who asks, by a bearer token, a password or a trusted proxy; None for nobody.

        Parameters
        ----------
        headers
            Of the request, names in small letters.
        peer
            Address from which it comes, as the socket says.
        """
        if self.is_open:
            return Principal("this machine", Role.OPERATOR)
        scheme, _, value = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self._by_token(value.strip())
        if scheme.lower() == "basic":
            return self._by_password(value.strip())
        return self._by_proxy(headers, peer)

    def form_token(self, principal: Principal) -> str:
        """Make the token of a form; a new one each time, so that compression tells nothing."""
        nonce, at = secrets.token_urlsafe(12), str(int(time.time()))
        return f"{nonce}.{at}.{self._sign(nonce, at, principal.name)}"

    def form_is_ours(self, token: str, principal: Principal) -> bool:
        """Say whether a form token is one of ours, for this person, and not too old."""
        nonce, _, rest = token.partition(".")
        at, _, signature = rest.partition(".")
        if not (at.isascii() and at.isdigit()) or not 0 <= time.time() - int(at) <= _FORM_VALID_S:
            return False
        return hmac.compare_digest(
            signature.encode(), self._sign(nonce, at, principal.name).encode()
        )

    def _sign(self, *parts: str) -> str:
        return hmac.new(self._form_key, "\n".join(parts).encode(), hashlib.sha256).hexdigest()

    def _by_token(self, token: str) -> Principal | None:
        given = hashlib.sha256(token.encode()).hexdigest()
        found = None
        for entry in self.tokens:  # all of them: the time must not tell which one
            if hmac.compare_digest(entry.secret_hash, given):
                found = Principal(entry.name, entry.role, bearer=True)
        return found

    def _by_password(self, value: str) -> Principal | None:
        fingerprint = hmac.digest(self._key, value.encode(), "sha256")
        at, principal = self._believed.get(fingerprint, (-_BELIEVED_S, None))
        if principal is not None and time.monotonic() - at < _BELIEVED_S:
            return principal
        try:
            name, _, password = base64.b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        entry = next((user for user in self.users if user.name == name), None)
        if not _is_password(password, entry.secret_hash if entry else _NOBODYS) or entry is None:
            return None
        if len(self._believed) >= _MOST_BELIEVED:
            self._believed.clear()
        principal = Principal(entry.name, entry.role)
        self._believed[fingerprint] = (time.monotonic(), principal)
        return principal

    def _by_proxy(self, headers: Mapping[str, str], peer: str) -> Principal | None:
        header = self.settings.web_access.web_proxy_user_header
        name = headers.get(header.lower(), "") if header else ""
        if not name or not _is_trusted(peer, self.settings.web_access.web_trusted_proxies):
            return None
        return Principal(name[:200], Role[self.settings.web_access.web_proxy_role.upper()])


def check_address(settings: Settings, host: str) -> None:
    """
    Refuse to listen where others can reach us while nobody is asked who they are.

    Raises
    ------
    SettingsError
        If so, or if tokens, users or proxies are not written as they should be.
    """
    if Access(settings).is_open and not is_loopback(host):
        raise SettingsError(
            f"listening on {host} lets others in, and nobody is asked who they are; set"
            f" {variable('web_tokens')}, {variable('web_users')} or"
            f" {variable('web_proxy_user_header')}, or listen on 127.0.0.1"
        )


def new_token(role: Role, name: str) -> tuple[str, str]:
    """Make a bearer token, and the entry of the settings that knows it by its hash."""
    token = secrets.token_urlsafe(32)
    return token, f"{name}:{role.name.lower()}:{hashlib.sha256(token.encode()).hexdigest()}"


def password_entry(name: str, role: Role, password: str) -> str:
    """Make the entry of the settings for somebody who comes with a password."""
    return f"{name}:{role.name.lower()}:{_hashed(password, secrets.token_bytes(16))}"


def _hashed(password: str, salt: bytes) -> str:
    found = hashlib.scrypt(password.encode(), salt=salt, n=2**14, r=8, p=1, dklen=32)
    return f"{_SCRYPT_MARK}{salt.hex()}${found.hex()}"


def _is_password(password: str, stored: str) -> bool:
    salt, _, _ = stored.removeprefix(_SCRYPT_MARK).partition("$")
    return hmac.compare_digest(_hashed(password, bytes.fromhex(salt)), stored)


#: Compared with when there is no such user, so that the time tells nothing.
_NOBODYS = f"{_SCRYPT_MARK}{'00' * 16}${'00' * 32}"


def _shared_key(settings: Settings) -> bytes | None:
    """
    Make the key of forms out of secrets that all pages of one deployment have.

    So a form that one of them showed is taken by the others, and by itself after a restart.
    None where there is no secret: an address without a password can be guessed.
    """
    given = (settings.web_access.web_tokens, settings.web_access.web_users)
    told = [secret.get_secret_value() if secret else "" for secret in given]
    told.append(urlsplit(settings.database_url or "").password or "")
    if not any(told):
        return None
    return hmac.digest(b"groundwatch forms", "\n".join(told).encode(), "sha256")


def _entries(value: SecretStr | None, setting: str) -> list[_Entry]:
    text = value.get_secret_value() if value is not None else ""
    found = []
    for number, item in enumerate(filter(None, (part.strip() for part in text.split(","))), 1):
        parts = item.split(":")
        if (
            len(parts) != _PARTS
            or parts[1].upper() not in Role.__members__
            or not _is_hash(parts[2])
        ):
            raise SettingsError(
                f"{variable(setting)}: entry {number} is not name:role:hash with a role of viewer,"
                " reader or operator; make one with: groundwatch web --new-token or --new-password"
            )
        found.append(_Entry(parts[0], Role[parts[1].upper()], parts[2]))
    return found


def _is_hash(text: str) -> bool:
    bare = text.removeprefix(_SCRYPT_MARK).replace("$", "")
    sizes = {96} if text.startswith(_SCRYPT_MARK) else {64}
    return len(bare) in sizes and all(c in "0123456789abcdef" for c in bare)


def _networks(
    addresses: tuple[str, ...],
) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    try:
        return [ipaddress.ip_network(address) for address in addresses]
    except ValueError as error:
        raise SettingsError(f"{variable('web_trusted_proxies')}: {error}") from None


def _is_trusted(peer: str, proxies: tuple[str, ...]) -> bool:
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return False
    return any(address in network for network in _networks(proxies))
