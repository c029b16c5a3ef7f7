"""What was retrieved is known to the code below, and to nobody else."""

import asyncio
import contextvars

from monitor.integrations import current_passages, retrieved


def test_retrieved_passages_apply_only_inside_the_block():
    assert current_passages() is None
    with retrieved(["outer"]):
        with retrieved(["inner"]):
            assert current_passages() == ["inner"]
        assert current_passages() == ["outer"]
    assert current_passages() is None


def test_concurrent_tasks_have_separate_passages():
    async def one(name):
        with retrieved([name]):
            await asyncio.sleep(0.001)
            return await asyncio.create_task(asyncio.to_thread(current_passages))

    async def all_of_them():
        return await asyncio.gather(*(one(name) for name in "abc"))

    assert asyncio.run(all_of_them()) == [["a"], ["b"], ["c"]]


def test_block_exited_in_another_context_raises_nothing():
    def parts():
        with retrieved(["c"]):
            yield current_passages()

    stream = parts()
    assert contextvars.copy_context().run(next, stream) == ["c"]
    stream.close()
    assert current_passages() is None


def test_retrieved_passages_are_copied_at_entry():
    passages = ["c"]
    with retrieved(passages):
        passages[:] = ["later"]
        assert current_passages() == ["c"]
