"""The built-in masks find what is private, leave ordinary text alone, and take linear time."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.hook.masks import BUILTIN, FINDERS, build, emails

MASK = build("builtin")

LONG = "abcdefghijklmnopqrstuvwxyz0123456789"
HEX = "0123456789abcdef" * 2
UUID = "550e8400-e29b-41d4-a716-446655440000"

PRIVATE = {
    "[EMAIL]": [
        "jo.doe+x@mail.example.co.uk", "JÖRG@example.de", "a@b.io", "o.neil_%x@sub.example.com",
        f"{'a' * 100}@example.com",
    ],
    "[CARD]": [
        "4111111111111111", "4111 1111 1111 1111", "4111-1111-1111-1111", "378282246310005",
        "3782 822463 10005", "6011 0009 9013 9424", "5555.5555.5555.4444", "2223003122003222",
        "30569309025904", "4111\u20091111\u20091111\u20091111",
        "4111\u202f1111\u202f1111\u202f1111", "4111  1111  1111  1111",
        "4111\n1111\n1111\n1111",
    ],
    "[KEY]": [
        "sk-abcdefghijklmnop1234", "sk_live_abcdefghijklmnop", "AKIAIOSFODNN7EXAMPLE",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789", "xoxb-1234567890-abc",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE+/=\n-----END RSA PRIVATE KEY-----",
        f"npm_{LONG}", f"pypi-AgEI{LONG}", f"SG.{LONG}.{LONG}", f"gsk_{LONG}", f"hvs.{LONG}",
        f"dop_v1_{HEX}", f"shpat_{HEX}", f"whsec_{LONG}", f"sq0atp-{LONG}", f"dckr_pat_{LONG}",
        f"lin_api_{LONG}", f"glsa_{LONG}", f"nvapi-{LONG}", f"pplx-{LONG}", f"tvly-{LONG}",
        f"r8_{LONG}", f"ATATT3{LONG}", f"dapi{HEX}", f"NRAK-{LONG.upper()}", f"figd_{LONG}",
        f"AGE-SECRET-KEY-1{LONG.upper()}", "rzp_live_abcdefghij1234", f"xai-{LONG}",
        f"xapp-1-{LONG}", f"EAA{LONG}{LONG}", f"123456789:AA{'x1' * 16}z", f"glc_{LONG}",
        f"pcsk_{LONG}", f"jina_{LONG}", f"ntn_{LONG}", f"sntrys_{LONG}",
        f"lsv2_pt_{LONG}_0123456789", f"PMAK-{HEX}-{HEX}", f"csk-{LONG.lower()}", f"key-{HEX}",
        f"sk-proj-{LONG}", f"sk-ant-api03-{LONG}-{LONG}", f"sk-or-v1-{HEX}", f"sk-lf-{UUID}",
        f"AQ.Ab8{LONG}{LONG}", f"GOCSPX-{LONG}", f"1//0{LONG}", f"glptt-{HEX}", f"glrt-{LONG}",
        f"glcbt-64_{LONG}", f"dp.pt.{LONG}{LONG}", f"hvb.{LONG}", f"sbp_{HEX}",
        f"sb_secret_{LONG}", f"pscale_tkn_{LONG}", f"nfp_{LONG}", f"tgp_v1_{LONG}", f"fw_{LONG}",
        f"fc-{HEX}", f"apify_api_{LONG}", f"ATBB{HEX}", f"ATTA{HEX}{HEX}", f"phx_{LONG}",
        f"xkeysib-{HEX}{HEX}-0123456789abcdef", f"rubygems_{HEX}", f"doo_v1_{HEX}",
        f"dt0c01.{LONG[:24].upper()}.{LONG.upper()}{LONG.upper()}", f"pat-na1-{UUID}",
        f"pul-{HEX}01234567", f"sgp_{HEX}", f"tfp_{LONG}", f"ops_eyJ{LONG * 4}",
        f"fm2_{LONG}", f"pat{LONG[:14]}.{HEX}{HEX}", f"SK{HEX}", f"sl.{LONG * 4}",
        f"abcXY8Q~{LONG[:34]}"[2:], f"LTAI{LONG[-20:]}", f"AKID{HEX}", f"CFPAT-{LONG}",
        f"pa-{LONG}1234567", f"HRKU-{UUID}", f"{HEX}-us12", f"{UUID}:fx", f"sntryu_{HEX}",
        f"pnu_{LONG}", f"NRII-{LONG}", f"sk.eyJ{LONG}.{LONG}", f"y0_{LONG}{LONG}",
        f"xoxe.xoxp-1-{LONG}", f"amzn.mws.{UUID}", f"ABSK{LONG * 3}", f"fio-u-{LONG}",
        f"{LONG[:14]}.atlasv1.{LONG}{LONG}", f"rdme_{HEX}", f"shippo_live_{HEX}", f"vcp_{LONG}",
        f"ico-{HEX}", f"api_org_{LONG}", f"oy2{LONG}1234567", f"sha256~{LONG}", f"napi_{LONG}",
        f"FLWSECK-{HEX}-X", f"cal_live_{HEX}", f"re_{LONG[:8]}_{LONG[:24]}", f"cflt{LONG}{LONG}",
        f"wandb_v1_{LONG}", f"tskey-auth-{LONG}", f"llx-{LONG}", f"e2b_{HEX}", f"ls__{HEX}",
        f"secret_{LONG}1234567", f"ATCTT3{LONG}=ADA8F3C2",
        f"xoxq-{LONG}", f"sq0xyz-{LONG}", f"lsv2_st_{LONG}", f"glc_a_b_{LONG}",
        f"LLM|123456789|{LONG}", f"BSA{LONG[-28:]}", f"rpa_{LONG}",
    ],
    "[IBAN]": [
        "DE89370400440532013000", "GB82 WEST 1234 5698 7654 32", "de89 3704 0044 0532 0130 00",
        "NO93-8601-1117-947", "FR14 2004 1010 0505 0001 3M02 606",
        "DE89\u00a03704\u00a00044\u00a00532\u00a00130\u00a000",
    ],
    "[IP]": [
        "10.0.0.1", "255.255.255.255", "fe80::1", "2001:db8::8a2e:370:7334", "::ffff:1.2.3.4",
        "2001:0db8:0000:0000:0000:ff00:0042:8329", "::1",
    ],
    "[PHONE]": [
        "+49 30 1234567", "+1 (555) 123-4567", "+442079460958", "(555) 123-4567", "555-123-4567",
        "1-800-555-1234", "020 7946 0958", "0171/1234567", "01 23 45 67 89", "0044 20 7946 0958",
        "06-12345678", "070-123 45 67", "08-123 45 67", "+46\u202f70\u202f123\u202f45\u202f67",
    ],
}  # fmt: skip
EACH = [(shown, private) for shown, several in PRIVATE.items() for private in several]

ORDINARY = [
    "2026-11-21", "21.11.2026", "01/02/2026", "11/21/26 10:20:30", "2026-11-21T10:00:00+01:00",
    "20260105123456789", "1700000000000", "1700000000.123456", "10:20:30.123", "week 2026-W47",
    "v1.2.3", "1.2.3", "version 1.2.3.4", "v10.0.0.1", "2.0.19041.1", "react@18.2.0", "python3.11",
    "$1,234.56", "1.234,56 EUR", "12 000 000", "0.123456789", "+12.5%", "-273.15", "1e-10",
    "550e8400-e29b-41d4-a716-446655440000", "12345678-1234-1234-1234-123456789012",
    "4012888888881882", "DE89370400440532013001", "XX89370400440532013000",
    "d41d8cd98f00b204e9800998ecf8427e", "00:1a:2b:3c:4d:5e", "std::vector<int>", "a::b", "f::g",
    "@property", "x @ y", "me@localhost", "C:\\key", "the bearer of news", "basic certificates",
    "password: none", "the key: value pairs", "risk-based", "task_list", "https://example.com/a:b",
    "10 / 20 / 30", "ISBN 978-3-16-148410-0", "999.999.999.999", "chapter 3.1.4.1.5", "1/2",
    "3.14159265358979", "fc-barcelona", "ak-47", "re_read_it", "SK-II", "a pattern.of.words",
    "secret_ingredient_of_grandmothers_soup", "layer8_attention_heads_total_count_of_each",
    "token classification_of_named_entities",
    "price per token gpt-4o-mini-2024-07-18", "128k-token meta-llama/Llama-3.1-8B-Instruct model",
    "token = tokenizer.encode_plus_v2(text)", "token: src/components/Button2/index.tsx",
    "medical_live_chat_transcripts_archive", "FAQ.About-returns-and-refunds-policy",
    "xai-methods-for-healthcare-data", "rubygems_dependency_graph_builder",
    "BSA-compliance-program-overviews", "fm2_configuration_parameters",
    f"https://a/path1//0{UUID}", "Authorization: everyone who has signed in",
    "pul-sating-and-im-pul-sive-pul-monary", "anti-us", f"commit {HEX}01234567", f"doc-{HEX}",
    f"chatcmpl-{LONG}", f"call_{LONG[:24]}", "[EMAIL]", "[KEY] and [PHONE]", "",
]  # fmt: skip

HOSTILE = [
    "a.", "a@", "@", "a@b.c", "1 ", "4111 ", "4111 1111 1111 1111 ", "41111111111111111", "-", "a:",
    ":", "1.1.1.", "GB82 ", "GB82WEST ", "+1", "0 ", "(555) ", "bearer ", "password: ", "://a:",
    "-----BEGIN PRIVATE KEY-----", "eyJaaaaaaaaaa.", "sk-a", "012 345 ", "0123456789 ", "123-456-",
    "key=", "key= ", "x@y.com.", "\u00a0", "://:", "dp.ab.", "token=", "cookie: a", "LLM|12345|",
    "0a-us", "SK0a", "sig=a", "authorization: ", "pat", "a8Q~", "a.atlasv1.",
]  # fmt: skip

#: An account of each country, as in the examples of the IBAN registry.
ACCOUNTS = """
AL35202111090000000001234567 AD1400080001001234567890 AT483200000012345864
AZ77VTBA00000000001234567890 BH02CITI00001077181611 BY86AKBB10100000002966000000
BE71096123456769 BA393385804800211234 BR1500000000000010932840814P2 BG18RZBB91550123456789
CR23015108410026012345 HR1723600001101234565 CY21002001950000357001234567
CZ5508000000001234567899 DK9520000123456789 DO22ACAU00000000000123456789
EG800002000156789012345180002 SV43ACAT00000000000000123123 EE471000001020145685
FO9264600123456789 FI1410093000123458 FR7630006000011234567890189 GE60NB0000000123456789
DE75512108001245126199 GI04BARC000001234567890 GR9608100010000001234567890 GL8964710123456789
GT20AGRO00000000001234567890 HU93116000060000000012345676 IS750001121234563108962099
IQ20CBIQ861800101010500 IE64IRCE92050112345678 IL170108000000012612345
IT60X0542811101000000123456 JO71CBJO0000000000001234567890 KZ244350000012344567
XK051212012345678906 KW81CBKU0000000000001234560101 LV97HABA0012345678910
LB92000700000000123123456123 LI7408806123456789012 LT601010012345678901 LU120010001234567891
MK07200002785123453 MT31MALT01100000000000000000123 MR1300020001010000123456753
MU43BOMM0101123456789101000MUR MD24AG000225100013104168 MC5810096180790123456789085
ME25505000012345678951 NL02ABNA0123456789 NO8330001234567 PK36SCBL0000001123456702
PS92PALS000000000400123456702 PL10105000997603123456789123 PT50002700000001234567833
QA54QNBA000000000000693123456 RO66BACX0000001234567890 LC14BOSL123456789012345678901234
SM76P0854009812123456789123 ST23000200000289355710148 SA4420000001234567891234
RS35105008123123123173 SC52BAHL01031234567890123456USD SK8975000000000012345671
SI56192001234567892 ES7921000813610123456789 SE7280000810340009783242 CH5604835012345678009
TL380010012345678910106 TN5904018104004942712345 TR320010009999901234567890
UA903052992990004149123456789 AE460090000000123456789 GB98MIDL07009312345678
VA59001123000012345678 VG07ABVI0000000123456789 RU0304452522540817810538091310419
BI4210000100010000332045181 DJ2100010000000154000100186 LY83002048000020100120361
SD8811123456789012 SO211000001001000100141 OM810180000001299123456 MN121234123456789123
NI45BAPR00000013000003558124 FK88SC123456789012 YE15CBYE0001018861234567891234
HN88CABF00000000000250005469
"""

BEFORE = ["", " ", "(", "a ", "Hi: ", "\n", '"', "é ", "12, "]
AFTER = ["", " ", ")", ". And", ", b", "\n", '"', "! é", "?"]


@pytest.mark.parametrize(("shown", "private"), EACH)
def test_private_value_is_replaced_by_its_kind(shown, private):
    masked = MASK(f"Hi {private} there")
    assert (masked.startswith("Hi "), masked.endswith(" there")) == (True, True)
    assert masked.count(shown) == 1


def test_iban_of_every_country_is_masked():
    assert [
        account for account in ACCOUNTS.split() if MASK(f"Pay {account} now") != "Pay [IBAN] now"
    ] == []


@given(st.sampled_from(EACH), st.sampled_from(BEFORE), st.sampled_from(AFTER))
def test_private_value_is_masked_whatever_surrounds_it(each, before, after):
    shown, private = each
    masked = MASK(before + private + after)
    assert shown in masked
    assert private not in masked
    assert masked.startswith(before)
    assert masked.endswith(after)


@given(st.lists(st.sampled_from(EACH) | st.text(max_size=4).map(lambda t: ("", t)), max_size=8),
       st.sampled_from(["", " ", ",", "-", ".", "@", ":"]))  # fmt: skip
def test_masking_is_idempotent(parts, between):
    masked = MASK(between.join(text for _, text in parts))
    assert MASK(masked) == masked


@given(st.text("0123456789 .:-+()@aAbBeEkK/=[]", max_size=60))
def test_masking_is_idempotent_for_odd_mixtures(text):
    masked = MASK(text)
    assert MASK(masked) == masked


@given(st.lists(st.sampled_from(EACH), min_size=1, max_size=6))
def test_all_private_values_in_one_text_are_masked(several):
    masked = MASK("; ".join(private for _, private in several))
    assert not [private for _, private in several if private in masked]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_not_masked(text):
    assert MASK(f"It is {text} as ever.") == f"It is {text} as ever."


@pytest.mark.parametrize("secret", ["hunter2hunter2", "correct-horse-battery"])
@pytest.mark.parametrize(
    "form", ["api_key={}", 'API-Key: "{}"', "'password': '{}'", "client_secret = {}",
             "Authorization: Bearer {}9", "redis://user:{}@host:6379/0", "https://:{}@host/"],
)  # fmt: skip
def test_announced_secret_is_masked_and_its_label_kept(form, secret):
    masked = MASK(form.format(secret))
    assert secret not in masked
    assert masked[:4] == form[:4]
    assert "[KEY]" in masked


@pytest.mark.parametrize(
    "form", ["Authorization: {}", "X-Auth-Token={}", "Set-Cookie: session={}", '"token": "{}"',
             "https://a.example/c?sv=1&sig={}%3D", "Authorization: SSWS 00{}",
             "Authorization: Token {}"],
)  # fmt: skip
def test_random_text_behind_a_name_that_announces_secrets_is_masked(form):
    masked = MASK(form.format(LONG))
    assert (LONG in masked, masked[:4], masked.count("[KEY]")) == (False, form[:4], 1)


def test_key_behind_a_dash_is_masked():
    assert MASK("profile-AKIAIOSFODNN7EXAMPLE") == "profile-[KEY]"


def test_truncated_private_key_is_masked_to_the_end():
    assert MASK("a -----BEGIN PRIVATE KEY-----\nMIIE") == "a [KEY]"


def test_card_followed_by_a_security_code_is_masked():
    assert MASK("card 4111 1111 1111 1111 123") == "card [CARD] 123"
    assert MASK("no. 12 4111 1111 1111 1111") == "no. 12 [CARD]"


@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_text_takes_linear_time(unit):
    text = (unit * 1_000_000)[:1_000_000]
    started = time.thread_time()
    MASK(text)
    assert time.thread_time() - started < 10.0  # a twentieth of 20 MB; the slowest takes one second


def test_every_name_has_a_finder():
    assert set(BUILTIN) == set(FINDERS) == {"key", "email", "iban", "card", "ip", "phone"}


@pytest.mark.parametrize(
    "piece", ["1.1@", "a@b-.", "A@1.1%", "a@b.c@", "a@1.1@", "a@", "@a.", "eyJ", "eyJ-", "ghp_",
              "://a:", "secret", "bearer ", "1-", "::1", "+1"],
)  # fmt: skip
def test_repetitive_text_is_masked_quickly(piece):
    # Where each match is looked at again, this would take the better part of an hour.
    text = piece * 100_000
    for finder in FINDERS.values():
        finder(text)


def test_email_after_a_similar_text_is_found():
    assert emails("react@18.2.0 a@b.de, x@1.2 <c@d.com>") == "react@18.2.0 [EMAIL], x@1.2 <[EMAIL]>"
