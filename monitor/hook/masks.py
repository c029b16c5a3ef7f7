"""The built-in masks, and how they join with a user's own: what leaves the app has been through."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial

Mask = Callable[[str], str]

# --- how the built-in masks find what is private: patterns in linear time, checks behind them ---

#: Says how many characters of a candidate, from its start, are what is looked for; 0 for none.
Check = Callable[[re.Match[str]], int]

# Patterns begin with the characters they look for and look back afterwards: the engine then skips
# quickly. Runs are possessive or bounded, so that no text is read twice. Groups are
# not: before Python 3.11.5 a possessive one keeps half a repeat, and what follows here never fails.
_EMAIL = re.compile(
    # What is glued to an address goes with it, or a second one behind it would stay.
    r"(?<![\w.%+-])[\w.%+-]++@[\w-]++(?:\.[\w-]++)+(?:[.%+-]*+[\w@]++)*"
)
_DOMAIN = re.compile(r"@[\w.-]*\.[^\W\d_]{2}")

#: The beginnings of vendors' keys, by the pattern of what follows.
_BEGINNINGS = {
    r"[A-Za-z0-9]{20,}+": (
        "ghp_ gho_ ghu_ ghs_ ghr_ hf_ api_org_ npm_ gsk_ sbp_ sgp_ tfp_ nfp_ pnu_ phx_ phc_ r8_"
        " vcp_ vca_ vck_ e2b_ rdme_ napi_ EZAK EZTK"
    ),
    r"\w{20,}+": (
        "github_pat_ xai- pplx- glc_ glsa_ ntn_ pcsk_ jina_ sntrys_ sntryu_ lin_api_ lin_oauth_"
    ),
    r"[\w-]{20,}+(?:\.[\w-]{20,}+)?": (
        "glpat- glptt- gldt- glrt- glcbt- glft- glimt- gloas- glagent- glsoat- glffct- ya29. xapp-"
        " hvs. hvb. hvr. nvapi- figd_ shpat_ shpca_ shppa_ shpss_ dop_v1_ doo_v1_ dor_v1_ NRAK-"
        " NRII- PMAK- GOCSPX- sb_secret_ pscale_tkn_ pscale_pw_ pscale_oauth_ tgp_v1_ dt0c01."
        " HRKU- CFPAT- amzn.mws. ctx7sk- AGE-SECRET-KEY-"
    ),
    r"(?=[\w-]{0,60}[0-9])[\w-]{20,}+": (
        "apify_api_ xkeysib- xsmtpsib- rubygems_ pat-na1- pat-eu1- fio-u- shippo_live_ wandb_v1_"
        " sha256~ fm2_ fm1r_ fo1_ FLWSECK tskey- mlsn. bb_live_"
    ),
    r"[\w=-]{20,}+": "ATATT3 ATCTT3",
    r"[ps][tk]_\w{20,}+": "lsv2_",
    r"[a-z]{3}-[\w-]{20,}+": "sq0",
    r"[a-z]-[\w-]{10,}+": "xox",
    r"[\w-]{10,}+": "rzp_live_ rzp_test_ xoxe.xox",
    r"[\w+/=-]{16,}+": "tvly- dckr_pat_ pypi- whsec_",
    r"[\w-]{16,}+\.[\w-]{16,}+": "SG.",
    r"[\w-]{30,}+": "AIza",
    r"[a-z0-9]{30,}+": "csk-",
    r"[0-9a-f]{32}": "dapi key-",
    r"[0-9a-f]{60}": "ATTA",
    r"[0-9]{5,20}\|[\w-]{20,}+": "LLM|",
}
#: Beginnings that are parts of words too: no letter, digit or underscore stands before them.
_BEGINNINGS_OF_WORDS = {
    r"[A-Z0-9]{16}(?!\w)": "AKIA ASIA",
    r"[A-Za-z0-9]{20}(?!\w)": "LTAI",
    r"[A-Za-z0-9]{32}(?!\w)": "AKID ATBB",
    r"[A-Za-z0-9]{60,}+": "EAA",
    r"[0-9a-f]{32}(?!\w)": "SK",
}
#: Nor a dash before these.
_BEGINNINGS_OF_NAMES = {
    r"[\w-]{16,}+": "sk- sk_ pk- pk_ rk- rk_",
    r"[A-Za-z0-9]{22}(?!\w)": "ak- as-",
    r"[A-Za-z0-9]{32}(?!\w)": "ico-",
    r"[0-9a-f]{32}(?!\w)": "fc- ls__",
    r"[0-9a-f]{40}(?!\w)": "pul-",
    r"(?=[\w-]{0,27}[0-9])[\w-]{28}(?![\w-])": "BSA",
    r"(?=[\w-]{0,42}[0-9])[\w-]{43}(?![\w-])": "pa- nk-",
    r"(?=[\w-]{0,42}[0-9])[\w-]{30,}+": "1//0 AQ.Ab cal_live_",
    r"[a-z0-9]{43}(?!\w)": "oy2",
    r"[A-Za-z0-9]{24,}+": "fw_ rpa_ cpk_ m0- llx-",
    r"[A-Za-z0-9]{40,}+": "secret_ cflt",
    r"[\w-]{50,}+": "y0_",
    r"[\w+/=]{100,}+": "ABSK ops_eyJ",
    r"[\w-]{100,}+": "sl.",
    r"[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}+": "re_",
    r"[A-Za-z0-9]{14}\.[0-9a-f]{64}": "pat",
    r"[a-z]{2,5}\.[\w-]{40,}+": "dp.",
    r"[\w-]{8,}+\.[\w-]++(?:\.[\w-]++)?": "eyJ",
}
#: Patterns by what must stand in a text for them to match.
_KEYS = {
    **{
        begin: re.compile(
            re.escape(begin) + (f"(?<!{barred}{'.' * len(begin)})" if barred else "") + follows
        )
        for barred, beginnings in (
            ("", _BEGINNINGS),
            (r"\w", _BEGINNINGS_OF_WORDS),
            (r"[\w-]", _BEGINNINGS_OF_NAMES),
        )
        for follows, begins in beginnings.items()
        for begin in begins.split()
    },
    "-us": re.compile(r"(?<![\w-])[0-9a-f]{32}-us[0-9]{1,2}(?!\w)"),
    ":fx": re.compile(r"(?<![\w-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}:fx(?!\w)"),
    ":AA": re.compile(r"[0-9]{8,10}:AA[\w-]{33}(?![\w-])"),
    "Q~": re.compile(r"(?<![\w~.-])[\w~.-]{3}[0-9]Q~[\w~.-]{31,34}"),
    ".atlasv1.": re.compile(r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{40,}+"),
    "hooks.slack.com/": re.compile(r"(?<=hooks\.slack\.com/services/)[\w/]{16,}+"),
    "/api/webhooks/": re.compile(r"(?<=/api/webhooks/)[0-9]{10,}+/[\w-]{20,}+"),
}
_SHORTEST_KEY = 13
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:[^-]|-(?!----))*(?:-----END[^-]*+-----)?"
)
#: What announces a secret stays; the secret behind it goes.
_ANNOUNCED = re.compile(
    r"((?:api|access|account|secret|auth|private)[ _-]?(?:key|token)|secret|passw(?:or)?d"
    r"|passphrase|pwd)"
    r"([\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?)(?!\[)([^\s\"',;&]{8,}+)",
    re.IGNORECASE,
)
_BEARER = re.compile(
    r"\b(bearer|basic)([ \t]{1,3})(?=[a-z._~+/=-]*+[0-9]|[a-z._~+/=-]{24})([\w.~+/=-]{8,}+)",
    re.IGNORECASE,
)
_IN_ADDRESS = re.compile(r"(://)([^\s/@:]*+:)(?!\[KEY\]@)([^\s/@]++)(?=@)")
#: Names that announce other things as well: only what looks random goes, with a run of sixteen
#: letters and digits.
_LONG = re.compile(
    r"((?<![a-z])(?:authorization|token|sig|cookie[\"']?: ?[\w.-]{1,40})"
    r"[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?(?:(?:token|ssws|apikey) )?)()"
    r"(?=[\w.~+/=%-]{0,40}?(?=[a-z]{0,15}[0-9])[a-z0-9]{16})([\w.~+/=%-]{20,}+)",
    re.IGNORECASE,
)
_ANNOUNCEMENTS = (
    (("key", "token", "secret", "passw", "passphrase", "pwd"), _ANNOUNCED),
    (("bearer", "basic"), _BEARER),
    (("authorization", "token", "sig", "cookie"), _LONG),
    (("://",), _IN_ADDRESS),
)

#: From its check digits on, the two letters of the country standing before them.
_IBAN = re.compile(
    r"[0-9]{2}(?<=[A-Za-z]{2}..)(?<![^\W_]....)(?:[ \u00a0\u2009\u202f-]?[A-Za-z0-9]){11,30}"
)
_IBAN_LENGTHS = {
    country: length
    for length, countries in {
        15: "NO", 16: "BE", 18: "DK FI FK FO GL NL SD", 19: "MK SI",
        20: "AT BA EE KZ LT LU MN XK", 21: "CH HR LI LV", 22: "BG BH CR DE GB GE IE ME RS VA",
        23: "AE GI IL IQ OM SO TL", 24: "AD CZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST",
        26: "IS TR", 27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
        29: "BR EG PS QA UA", 30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
    }.items()
    for country in countries.split()
}  # fmt: skip

# One separator throughout, and not within a UUID, whose groups may be digits.
_CARD = re.compile(
    r"[2-6](?<!\w.)(?<!\b[0-9a-fA-F]{8}-.)(?<!-[0-9a-fA-F]{4}-.)[0-9]{3}(?:[0-9]{9,15}"
    r"|[0-9]{0,2}([ .\u00a0\u2009\u202f-])[0-9]{3,10}(?:\1[0-9]{2,7}){0,3}"
    r"|(  |\r?\n)[0-9]{4}\2[0-9]{4}\2[0-9]{4})(?!\w)(?!-[0-9a-fA-F]{4}-)"
)
_ISSUER = re.compile(r"2[2-7]|3[04-9]|[456]")
_GROUP = re.compile(r"[0-9]+")
_DOUBLED = bytes.maketrans(b"0123456789", b"0246813579")
_NO_SEPARATORS = str.maketrans("", "", " .\u00a0\u2009\u202f\r\n-")

_PHONE = re.compile(
    r"[+(0-9](?:"
    r"(?<=\+)(?<![\w+].)[1-9](?:[ ()./\u00a0\u2009\u202f-]{0,2}[0-9]){7,14}(?![0-9])"
    r"|(?<=0)(?<![\w.,:/+-].)(?:0[1-9](?:[ ()/-]{0,2}[0-9]){7,13}(?!\w)"
    r"|(?:[1-9][0-9]{0,2}[ -][0-9]{2,3}(?: [0-9]{2}){2}"
    r"|[1-9][0-9]{1,4}(?:[ /-][0-9]{3,8}){1,2}|[1-9][ -]?[0-9]{7,9}"
    r"|[1-9]([ .-])[0-9]{2}(?:\1[0-9]{2}){3})(?![\w/]|[.,:-][0-9]))"
    r"|(?<=\()[0-9]{3}\) ?[0-9]{3}[ .-][0-9]{4}(?!\w)"
    r"|(?<=[0-9])(?<![\w.,/+-].)(?:[0-9]{2}|(?<=1)[ .-][0-9]{3})([ .-])[0-9]{3}\2[0-9]{4}"
    r"(?![\w-]|[.,][0-9]))"
)
_SHORTEST_PHONE = 8

_IPV4 = re.compile(
    r"[0-9](?<![\w.].)(?<!ersion .)[0-9]{0,2}(?:\.[0-9]{1,3}){3}(?!\w|\.[0-9])"
)  # fmt: skip
_IPV6 = re.compile(
    r"[0-9A-Fa-f:](?<![\w:].)(?=[0-9A-Fa-f:]{0,4}:)"
    r"[0-9A-Fa-f:]{1,38}+(?:(?:\.[0-9]{1,3}){3})?(?![\w:])"
)
_COLONS = 3


def emails(text: str) -> str:
    """Hide email addresses; a version such as ``name@1.2.3`` is none."""
    if "@" not in text:
        return text
    return _hide(text, _EMAIL, _whole_if(_DOMAIN.search), "[EMAIL]", bounded=False)


def keys(text: str) -> str:
    """Hide API keys, tokens, private keys, and what is called a password."""
    # A text has few words as long as a key: only these are searched for a hundred beginnings.
    long_words = " ".join([word for word in text.split() if len(word) >= _SHORTEST_KEY])
    for part, pattern in _KEYS.items() if long_words else ():
        if part in long_words:
            text = pattern.sub("[KEY]", text)
    if "PRIVATE KEY-----" in text:
        text = _PRIVATE_KEY.sub("[KEY]", text)
    lower = text.lower()
    for words, pattern in _ANNOUNCEMENTS:
        if any(word in lower for word in words):
            text = pattern.sub(r"\1\2[KEY]", text)
    return text


def ibans(text: str) -> str:
    """Hide bank accounts whose length and check digits are right."""
    return _hide(text, _IBAN, _iban, "[IBAN]", before=2)


def cards(text: str) -> str:
    """Hide card numbers of 13 to 19 digits with a known first digit and a right Luhn digit."""
    return _hide(text, _CARD, _card, "[CARD]")


def ips(text: str) -> str:
    """Hide addresses of IPv4 and IPv6; a time such as ``10:20:30`` is none."""
    if text.count(":") > 1:
        text = _hide(text, _IPV6, _ipv6, "[IP]")
    if text.count(".") < _COLONS:
        return text

    def is_address(found: str) -> bool:
        return all(int(part) < 256 for part in found.split("."))  # noqa: PLR2004

    return _hide(text, _IPV4, _whole_if(is_address), "[IP]")


def phones(text: str) -> str:
    """Hide phone numbers with a country code, a leading zero or American grouping."""

    def is_long(found: str) -> bool:
        return sum(map(str.isdigit, found)) >= _SHORTEST_PHONE

    return _hide(text, _PHONE, _whole_if(is_long), "[PHONE]")


def _whole_if(is_private: Callable[[str], object]) -> Check:
    """Make a check that takes all of a candidate or nothing."""

    def check(found: re.Match[str]) -> int:
        return len(found[0]) if is_private(found[0]) else 0

    return check


#: In the order in which they are applied.
FINDERS: dict[str, Mask] = {
    "key": keys, "email": emails, "iban": ibans, "card": cards, "ip": ips, "phone": phones,
}  # fmt: skip


def _hide(
    text: str,
    pattern: re.Pattern[str],
    check: Check,
    shown: str,
    *,
    before: int = 0,
    bounded: bool = True,
) -> str:
    """
    Replace what passes the check, together with the *before* characters in front.

    What does not pass is tried again from its next character; if the pattern is not
    *bounded*, from its end, for there would be too much to look at again and again.
    """
    kept: list[str] = []
    done = at = 0
    while (found := pattern.search(text, at)) is not None:
        start = found.start()
        length = check(found)
        at = start + (length or (1 if bounded else len(found[0])))
        if length:
            kept += (text[done : start - before], shown)
            done = at
    return "".join((*kept, text[done:])) if kept else text


def _iban(found: re.Match[str]) -> int:
    country = found.string[found.start() - 2 : found.start()].upper()
    wanted = _IBAN_LENGTHS.get(country, sys.maxsize) - len(country)
    ends = [end for end, character in enumerate(found[0], 1) if character.isalnum()]
    if len(ends) < wanted:
        return 0
    end = ends[wanted - 1]
    if found.string[found.start() + end : found.start() + end + 1].isalnum():
        return 0
    digits = [found[0][at - 1] for at in ends[:wanted]]
    number = "".join(str(int(digit, 36)) for digit in (*digits[2:], *country, *digits[:2]))
    return end if int(number) % 97 == 1 else 0


def _card(found: re.Match[str]) -> int:
    text = found[0]
    if not _ISSUER.match(text.translate(_NO_SEPARATORS)):
        return 0
    for end in reversed([group.end() for group in _GROUP.finditer(text)]):
        raw = text[:end].translate(_NO_SEPARATORS).encode()[::-1]
        total = sum(raw[::2]) + sum(raw[1::2].translate(_DOUBLED))  # Luhn
        if 13 <= len(raw) <= 19 and (total - ord("0") * len(raw)) % 10 == 0:  # noqa: PLR2004
            return end
    return 0


def _ipv6(found: re.Match[str]) -> int:
    text = found[0] if found[0].endswith("::") else found[0].rstrip(":")
    if not (_GROUP.search(text) or text.count(":") >= _COLONS):
        return 0  # such as a name in C++
    try:
        socket.inet_pton(socket.AF_INET6, text)
    except (OSError, ValueError):
        return 0
    return len(text)


BUILTIN = tuple(FINDERS)
#: A text that still changes after this many rounds is given up: it was made to slip through.
_ROUNDS = 8
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")


def build(spec: object) -> Mask:
    """
    Make one mask of what a user gave: a function, ``"builtin"``, names, or a list of parts.

    Raises
    ------
    ValueError
        If a part is none of these, or a pattern cannot be compiled.
    """
    if callable(spec):
        return spec
    if isinstance(spec, str):
        spec = [name.strip() for name in spec.split(",")]
    if not isinstance(spec, (list, tuple)) or not spec:
        raise ValueError
    named = [part for part in spec if isinstance(part, str)]
    if not {*named} <= {*BUILTIN, "builtin"}:
        raise ValueError
    finders = [f for name, f in FINDERS.items() if name in named or "builtin" in named]
    masks: list[Mask] = []
    for part in spec:
        if not isinstance(part, str):
            masks.append(part if callable(part) else _own(part))
        elif part is named[0]:  # all built-in ones are one mask, at the place of the first
            masks.append(partial(_builtin, finders))
    return masks[0] if len(masks) == 1 else partial(_through, masks)


def _builtin(finders: Sequence[Mask], text: str) -> str:
    """Mask until nothing changes: what is found may stand within something else."""
    for _ in range(_ROUNDS):
        before = text
        text = _through(finders, text)
        if text == before:
            return text
    raise ValueError("masking does not come to an end")  # and so the sample must not leave


def _through(masks: Sequence[Mask], text: str) -> str:
    for mask in masks:
        text = mask(text)
    return text


def _own(part: object) -> Mask:
    """Make a mask of a name and a pattern."""
    name, pattern = part if isinstance(part, tuple) and len(part) == 2 else ("", "")  # noqa: PLR2004
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError
    try:
        compiled = re.compile(pattern)
    except (re.error, TypeError):
        raise ValueError from None
    shown = f"[{name.upper()}]"
    return lambda text: str(compiled.sub(lambda _: shown, text))
