"""What was retrieved is known to the code below, and to nobody else."""

import asyncio
import contextvars

from monitor.integrations import current_passages, retrieved


def test_passages_are_known_within_the_block_only():
    assert current_passages() is None
    with retrieved(["outer"]):
        with retrieved(["inner"]):
            assert current_passages() == ["inner"]
        assert current_passages() == ["outer"]
    assert current_passages() is None


def test_tasks_at_the_same_time_are_kept_apart():
    async def one(name):
        with retrieved([name]):
            await asyncio.sleep(0.001)
            return await asyncio.create_task(asyncio.to_thread(current_passages))

    async def all_of_them():
        return await asyncio.gather(*(one(name) for name in "abc"))

    assert asyncio.run(all_of_them()) == [["a"], ["b"], ["c"]]


def test_block_that_is_left_in_another_context_raises_nothing():
    def parts():
        with retrieved(["c"]):
            yield current_passages()

    stream = parts()
    assert contextvars.copy_context().run(next, stream) == ["c"]
    stream.close()
    assert current_passages() is None


def test_passages_stay_what_they_were_whatever_becomes_of_the_list():
    passages = ["c"]
    with retrieved(passages):
        passages[:] = ["later"]
        assert current_passages() == ["c"]
