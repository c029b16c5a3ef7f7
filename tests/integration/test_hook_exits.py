"""How a process ends decides whether its last samples arrive: the table in docs/processes.md."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import redis

from monitor.queue import names, wire

pytestmark = pytest.mark.timeout(600)  # fifty processes, on however busy a machine

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "processes.md").read_text(encoding="utf-8")

#: Ends after which all arrives. Each program calls `last()`, which samples, and then ends.
ARRIVES = {
    "the end of the script": "last()",
    "`sys.exit`, with any code": "last(); sys.exit(3)",
    "an exception that nobody catches": "last(); raise ValueError",
    "a stack overflow of Python's": "def deeper(): deeper()\nlast(); deeper()",
    "SIGINT (Ctrl-C)": "last(); os.kill(os.getpid(), signal.SIGINT); time.sleep(9)",
    "SIGTERM, with a handler that calls `sys.exit`": """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
last(); os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)""",
    "SIGHUP, with such a handler": """
signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))
last(); os.kill(os.getpid(), signal.SIGHUP); time.sleep(9)""",
    "`sys.exit` within `with groundwatch.interaction()`": """
with monitor.interaction() as it:
    it.output = "last"
    sys.exit()""",
    "a thread that outlives the main one": """
threading.Thread(target=lambda: (time.sleep(0.1), last())).start()""",
    "a daemon thread that still runs": """
done = threading.Event()
threading.Thread(target=lambda: (last(), done.set(), time.sleep(60)), daemon=True).start()
done.wait()""",
    "a thread pool that is not shut down": """
concurrent.futures.ThreadPoolExecutor().submit(last)""",
    "an exception in a thread": """
threading.Thread(target=lambda: (last(), 1 / 0)).start()""",
    "the end of `asyncio.run`": """
async def main(): last()
asyncio.run(main())""",
    "a cancelled task": """
async def work(): last(); await asyncio.sleep(60)
async def main():
    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
asyncio.run(main())""",
    "SIGINT in an event loop": """
async def main(): last(); os.kill(os.getpid(), signal.SIGINT); await asyncio.sleep(60)
asyncio.run(main())""",
    "a watched stream that the client leaves": """
@monitor.watch
def answer(question): yield "last"; yield " words"
stream = answer("q"); next(stream); stream.close()""",
    "`init` again, then the end": """
last(); monitor.init(app=NAME, sample_rate=0.0, redis_url=URL)""",
    "an exit handler that was registered after the import": "atexit.register(last)",
    "a forked child that ends as scripts do": """
if os.fork(): os.wait()
else: last(); sys.exit()""",
    "`multiprocessing.Process`": """
process = multiprocessing.get_context("fork").Process(target=last)
process.start(); process.join()""",
    "`multiprocessing.Pool`, closed and joined": """
pool = multiprocessing.get_context("fork").Pool(1)
pool.apply(last); pool.close(); pool.join()""",
    "`ProcessPoolExecutor`": """
context = multiprocessing.get_context("fork")
with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
    pool.submit(last).result()""",
}
#: Ends that run no exit handler: what was sampled in the last half second needs a `flush` before.
NEEDS_FLUSH = {
    "SIGTERM without a handler": "last(); os.kill(os.getpid(), signal.SIGTERM)",
    "SIGHUP without a handler": "last(); os.kill(os.getpid(), signal.SIGHUP)",
    "SIGKILL, as of the out-of-memory killer": "last(); os.kill(os.getpid(), signal.SIGKILL)",
    "`os._exit`": "last(); os._exit(0)",
    "`os.abort`": "last(); os.abort()",
    "a crash in C (SIGSEGV)": "last(); os.kill(os.getpid(), signal.SIGSEGV)",
    "`os.execv`": "last(); os.execv('/bin/true', ['true'])",
    "frozen after the request, then killed (serverless)": """
last(); os.kill(os.getpid(), signal.SIGSTOP)""",
    "a forked child that calls `os._exit`": """
if os.fork(): os.wait()
else: last(); os._exit(0)""",
    "`Process.terminate`": """
context = multiprocessing.get_context("fork")
sampled = context.Event()
def work(): last(); sampled.set(); time.sleep(60)
process = context.Process(target=work)
process.start(); sampled.wait(); process.terminate(); process.join()""",
    "`multiprocessing.Pool`, left by its `with` block": """
with multiprocessing.get_context("fork").Pool(1) as pool: pool.apply(last)""",
}
#: Ends after which the last samples are gone.
GONE = {
    "an exit handler that was registered before the import": "EARLY.append(last)",
    "Redis is away": """
monitor.init(app=NAME, sample_rate=1.0, redis_url="redis://127.0.0.1:1/0"); last()""",
}
#: Ends that have tests of their own, with the servers themselves.
ELSEWHERE = {
    "gunicorn: sync, gthread, gevent, each with `--preload` or without": "gunicorn",
    "uvicorn": "uvicorn",
    "uWSGI": "uwsgi",
    "`multiprocessing` by spawn and forkserver": "processes",
    "gevent": "processes",
}

#: Forks a child for each end: what all of them import is loaded once.
PROGRAM = """
import atexit, json, os, sys
EARLY = []
atexit.register(lambda: [handler() for handler in EARLY])
import asyncio, concurrent.futures, multiprocessing, resource, signal, threading, time
import monitor
import monitor.hook.delivery

ENDS, URL = json.loads(sys.argv[1]), sys.argv[2]
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)

def last():
    monitor.sample(output="last")
    assert not FLUSHES or monitor.flush(30)

running, waiting = 0, list(ENDS)
while waiting or running:
    if waiting and running < 6:
        NAME = waiting.pop()
        if not os.fork():
            break
        running += 1
        continue
    child, status = os.waitpid(-1, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        os.kill(child, signal.SIGKILL)
    else:
        running -= 1
else:
    os._exit(0)
signal.signal(signal.SIGINT, signal.default_int_handler)
code, FLUSHES = ENDS[NAME]
monitor.init(app=NAME, sample_rate=1.0, redis_url=URL)
monitor.sample(output="before")
assert monitor.flush(30)
exec(code)
"""


@pytest.fixture(scope="module")
def arrived(redis_urls):
    """Run all programs side by side; return what arrived of each, and what the hooks counted."""
    url = next(redis_urls)
    ends = {name: (code, False) for name, code in (ARRIVES | NEEDS_FLUSH | GONE).items()}
    ends |= {f"{name}, flushed": (code, True) for name, code in NEEDS_FLUSH.items()}
    subprocess.run([sys.executable, "-c", PROGRAM, json.dumps(ends), url], check=True, timeout=580)
    found, sent = {name: Counter() for name in ends}, Counter()
    with redis.Redis.from_url(url) as client:
        for _, fields in client.xrange(names.SAMPLES):
            interaction = wire.decode(fields).interaction
            found[interaction.app][interaction.output] += 1
        for hook_id in client.zrange(names.HOOKS, 0, -1):
            app, n = client.hmget(names.hook(hook_id.decode()), "app", "sent")
            sent[app.decode()] += int(n)
    assert {name: outputs.total() for name, outputs in found.items()} == dict(sent)
    return found


ALL, FIRST = Counter(before=1, last=1), Counter(before=1)


@pytest.mark.parametrize("end", ARRIVES)
def test_every_sample_arrives_at_this_exit(arrived, end):
    assert arrived[end] == ALL


@pytest.mark.parametrize("end", NEEDS_FLUSH)
def test_flushed_samples_arrive_and_without_flush_only_the_last_may_be_lost(arrived, end):
    assert arrived[f"{end}, flushed"] == ALL
    assert arrived[end] in (ALL, FIRST)


@pytest.mark.parametrize("end", GONE)
def test_only_samples_after_the_last_send_are_lost(arrived, end):
    assert arrived[end] == FIRST


def test_page_lists_every_exit_with_its_delivery():
    rows = dict(re.findall(r"^\| (.+?) \| (yes|after `flush`|no) \|$", PAGE, re.MULTILINE))
    told = dict.fromkeys([*ARRIVES, *ELSEWHERE], "yes")
    told |= dict.fromkeys(NEEDS_FLUSH, "after `flush`") | dict.fromkeys(GONE, "no")
    assert rows == told
    assert len(rows) >= 30


@pytest.mark.parametrize("server", sorted({*ELSEWHERE.values()}))
def test_server_exits_have_their_own_tests(server):
    assert (ROOT / "tests" / "integration" / f"test_hook_servers_{server}.py").exists()
