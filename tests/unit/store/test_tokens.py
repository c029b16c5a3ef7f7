"""Tokens are known by their secrets, live until they expire or are revoked, and have one name."""

from datetime import UTC, datetime, timedelta

import pytest

from monitor.errors import SettingsError
from monitor.store.tokens import create_token, find_token, read_tokens, revoke_token

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def create(connection, name="ci", **given):
    fields = {"role": "reader", "apps": ("b", "a"), "scopes": (), "created_by": "ann", "now": NOW}
    return create_token(connection, name, **fields | given)


def test_token_is_found_only_by_its_own_secret(connection):
    first, second = create(connection, "first"), create(connection, "second", role="viewer")
    assert first != second
    assert find_token(connection, first, NOW).name == "first"
    assert find_token(connection, second, NOW).role == "viewer"
    assert find_token(connection, "gw_other", NOW) is None


def test_token_keeps_its_apps_scopes_author_and_times(connection):
    create(connection, scopes=("write", "label"), created_by="x" * 201, expires_at=LATER)
    [found] = read_tokens(connection)
    assert (found.apps, found.scopes) == (("a", "b"), ("label", "write"))
    assert (found.created_by, found.created_at, found.expires_at) == ("x" * 200, NOW, LATER)


def test_expired_token_is_refused_from_its_expiry_on(connection):
    secret = create(connection, expires_at=LATER)
    assert find_token(connection, secret, LATER - timedelta(seconds=1))
    assert find_token(connection, secret, LATER) is None
    assert not revoke_token(connection, "ci", LATER)


def test_revoked_token_is_refused_and_its_name_is_reusable(connection):
    secret = create(connection)
    assert not revoke_token(connection, "other", NOW)
    assert revoke_token(connection, "ci", NOW)
    assert not revoke_token(connection, "ci", NOW)
    assert find_token(connection, secret, NOW) is None
    assert find_token(connection, create(connection, now=LATER), LATER)
    assert [token.created_at for token in read_tokens(connection)] == [LATER, NOW]


def test_two_live_tokens_have_two_names(connection):
    create(connection)
    with pytest.raises(SettingsError, match="revoke it first: groundwatch tokens revoke ci"):
        create(connection)
