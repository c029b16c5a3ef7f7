"""The forms of an address of Redis, and what redis-py and Celery are told for each."""

import ssl

import pytest

from monitor.errors import QueueError, QueueUnavailableError
from monitor.queue.consumer import connect
from monitor.queue.producer import Producer, place_of
from monitor.settings import masked_url
from monitor.settings.kinds import is_redis_url, sentinels_of
from workers.celery import broker_conf

SENTINELS = "redis+sentinel://bot:p%40ss@one.example:1,[::1]:2,three.example/main/3"


def test_sentinel_port_has_a_default():
    found = sentinels_of(SENTINELS)
    assert found.nodes == (("one.example", 1), ("::1", 2), ("three.example", 26379))
    assert (found.master_name, found.master_url) == ("main", "redis://bot:p%40ss@master/3")


@pytest.mark.parametrize("url", ["redis://host:6379/0", "rediss://host", "unix:///run/redis.sock"])
def test_plain_addresses_have_no_sentinels(url):
    assert sentinels_of(url) is None
    assert is_redis_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://",
        "redis+sentinel://host:26379",
        "redis+sentinel:///main/0",
        "redis+sentinel://host:port/main",
        "redis+sentinel://host:1/main/zero",
        "rediss+sentinel://TOPSECRET@/main",
        "http://host",
        "redis",
    ],
)
def test_invalid_redis_address_is_refused_without_being_printed(url):
    assert not is_redis_url(url)
    for use in (connect, lambda url: Producer(url, queue_limit=1)):
        with pytest.raises((QueueUnavailableError, QueueError)) as caught:
            use(url)
        assert "SECRET" not in str(caught.value)


def test_sentinels_have_credentials_separate_from_the_master():
    place = place_of(SENTINELS + "?sentinel_username=watch&sentinel_password=other")
    assert place.options == {"username": "bot", "password": "p@ss", "db": 3}
    assert place.sentinel_options == {"username": "watch", "password": "other"}


def test_certificates_apply_to_master_and_sentinels():
    place = place_of("rediss+sentinel://h:1/main?ssl_ca_certs=/ca.pem&ssl_keyfile=/key.pem")
    assert place.tls
    secured = {"ssl_ca_certs": "/ca.pem", "ssl_keyfile": "/key.pem"}
    assert place.sentinel_options == secured
    assert place.options == {"db": 0, **secured}


@pytest.mark.parametrize("url", ["rediss://host/0", "rediss+sentinel://host:1/main"])
def test_celery_verifies_certificates_by_default(url):
    conf = broker_conf(url)["broker_use_ssl"]
    assert conf["ssl_cert_reqs"] == ssl.CERT_REQUIRED
    assert conf["ssl_check_hostname"] is True
    given = broker_conf(url + "?ssl_check_hostname=false")["broker_use_ssl"]
    assert given["ssl_check_hostname"] is False


def test_celery_receives_every_sentinel():
    conf = broker_conf(SENTINELS + "?sentinel_password=other")
    assert conf["broker_url"] == (
        "sentinel://bot:p%40ss@one.example:1/3;sentinel://bot:p%40ss@[::1]:2/3;"
        "sentinel://bot:p%40ss@three.example:26379/3"
    )
    options = conf["broker_transport_options"]
    assert options["master_name"] == "main"
    assert options["sentinel_kwargs"]["password"] == "other"


@pytest.mark.parametrize(
    ("url", "broker"),
    [
        ("redis://:pw@h/1", "redis://:pw@h:6379/1"),
        ("rediss://u:p%2Fw@h:7/0?ssl_ca_certs=/ca", "redis://u:p%2Fw@h:7/0"),
        ("unix:///run/redis.sock?db=2", "redis+socket:///run/redis.sock?virtual_host=2"),
    ],
)
def test_celery_gets_an_address_in_its_own_format(url, broker):
    conf = broker_conf(url)
    assert conf["broker_url"] == broker
    assert ("broker_use_ssl" in conf) == url.startswith("rediss")


def test_passwords_of_sentinels_and_of_keys_are_masked():
    shown = masked_url(SENTINELS + "?sentinel_password=other&ssl_password=third&x=1")
    assert shown.startswith("redis+sentinel://bot:***@one.example:1,")
    assert shown.endswith("?sentinel_password=***&ssl_password=***&x=1")
