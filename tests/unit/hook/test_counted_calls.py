"""What is counted of calls that bring no answer, an odd one, or fail under way."""

import pytest

import monitor


@pytest.fixture
def hook():
    hook = monitor.Hook(app="bot", sample_rate=1.0, redis_url="redis://127.0.0.1:1/0")
    yield hook
    hook.close(0.1)


def counted(hook):
    stats = hook.stats()
    return stats["seen"], stats["sampled"], stats["dropped"], stats["errored"]


class Odd:
    def __getattr__(self, name):
        raise RuntimeError(name)


def test_interaction_without_an_output_is_not_counted(hook):
    with hook.interaction(query="q"):
        pass
    assert counted(hook) == (0, 0, {}, {})


def test_interaction_that_failed_counts_as_failed(hook):
    with pytest.raises(KeyError), hook.interaction(query="q"):
        raise KeyError
    assert counted(hook) == (0, 0, {}, {"KeyError": 1})


def test_unreadable_answer_counts_as_missing_and_is_returned(hook):
    answer = Odd()
    assert hook.watch(output="answer")(lambda query: answer)("q") is answer
    assert counted(hook) == (1, 1, {"no_output": 1}, {})


def test_stream_that_fails_midway_counts_as_failed_and_keeps_its_start(hook):
    @hook.watch
    def stream(query):
        yield "a"
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        list(stream("q"))
    assert counted(hook) == (1, 1, {}, {"ValueError": 1})
    assert hook.stats()["buffered"] == 1


def test_unknown_field_is_named_in_the_log(hook, caplog):
    hook.watch(lokale="de", release="v1")(lambda query: "a")
    assert [record.getMessage() for record in caplog.records] == [
        "watch_unknown_field name='lokale'"
    ]
