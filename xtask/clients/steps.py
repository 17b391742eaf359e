"""Steps that every Python client takes, in the words that its model reads.

A client is an object with `names()`, `call(tool, **arguments)`, which returns an `Answer`, and `abandon(seconds, tool, **arguments)`,
which stops waiting for a call in the way its framework does.
"""
import asyncio
import dataclasses
import re
import time

from expect import PICTURE, expect, expect_in

TOOLS = ("execute_code", "run_command", "wait", "read_file", "write_file", "edit_file", "list_dir", "grep", "session")

RUNNING = re.compile(r"call wait with run_id `(\w+)` and cursor `([\d-]+)`")


@dataclasses.dataclass
class Answer:
    """What a framework makes of a result."""

    text: str
    # None: the framework hides it.
    is_error: bool | None = None
    n_pictures: int | None = None
    data: dict | None = None


class Steps:
    def __init__(self, client):
        self.client = client
        self.session = None

    async def call(self, tool, **arguments):
        """Calls a tool, and waits for a run that a busy machine makes a long one."""
        answer, deadline = await self.call_once(tool, **arguments), time.monotonic() + 60
        while (again := RUNNING.search(answer.text)) and time.monotonic() < deadline:
            answer = await self.call_once("wait", run_id=again.group(1))
        return answer

    async def call_once(self, tool, **arguments):
        answer = await self.client.call(tool, **arguments)
        if answer.is_error:
            raise AssertionError("%s: %s" % (tool, answer.text))
        return answer

    async def list(self):
        names = await self.client.names()
        expect("tools", sorted(set(TOOLS) - set(names)), [])

    async def code(self):
        answer = await self.call("execute_code", code="6 * 7")
        expect("value", answer.text, "42")
        if answer.data:
            expect("structured value", answer.data["value"], "42")

    async def state(self):
        made = await self.call("session", action="create")
        self.session = re.search(r"session ([0-9a-f]+)", made.text).group(1)
        await self.call("execute_code", code="x = 20", session=self.session)
        expect("state", (await self.call("execute_code", code="x + 1", session=self.session)).text, "21")

    async def files(self):
        at = {"session": self.session, "path": "a/b.txt"}
        expect_in("written", "created a/b.txt", (await self.call("write_file", content="one\ntwo\n", **at)).text)
        expect("read", (await self.call("read_file", **at)).text, "one\ntwo\n")
        edits = [{"old": "two", "new": "three"}]
        expect_in("edited", "1 replaced", (await self.call("edit_file", edits=edits, **at)).text)
        expect("read again", (await self.call("read_file", **at)).text, "one\nthree\n")

    async def grep(self):
        found = await self.call("grep", session=self.session, pattern="thr.e")
        expect_in("found", "a/b.txt:2:three", found.text)

    async def refusal(self):
        blocked = await self.client.call("execute_code", code="object.__subclasses__()")
        expect_in("refused", "status: blocked", blocked.text)
        expect("marked as an error", blocked.is_error is not False, True)
        wrong = await self.client.call("read_file", session=self.session, path="a/b.txt", offset=-1)
        expect_in("wrong argument", "`offset`", wrong.text)

    async def run_of_7_s(self):
        code = "import time\nfor i in range(1, 8):\n    print(i)\n    time.sleep(1)"
        await self.long_run([str(i) for i in range(1, 8)], "execute_code", code=code)

    async def run_of_30_s(self):
        command = "for i in 1 2 3 4 5 6; do echo $i; sleep 5; done"
        await self.long_run([str(i) for i in range(1, 7)], "run_command", command=command)

    async def long_run(self, lines, tool, **arguments):
        seen, n_calls, deadline = [], 0, time.monotonic() + 90
        while time.monotonic() < deadline:
            answer, n_calls = await self.call_once(tool, **arguments), n_calls + 1
            seen += re.findall(r"^\d+$", answer.text, re.M)
            again = RUNNING.search(answer.text)
            if not again:
                break
            tool, arguments = "wait", {"run_id": again.group(1), "cursor": again.group(2)}
        expect("lines", seen, lines)
        expect("answered before it ended", n_calls > 1, True)

    async def cancellation(self):
        """A command that is called off does not come to its end."""
        command = "touch begun; sleep 5; touch late"
        # On a busy machine it may not begin before it is called off, which shows nothing.
        for _ in range(5):
            # Shorter than it takes to be answered `running`.
            await self.client.abandon(1.5, "run_command", command=command, session=self.session)
            await asyncio.sleep(6)
            left = (await self.call("list_dir", session=self.session)).text
            if "begun" in left:
                break
        expect("begun, came to its end", ("begun" in left, "late" in left), (True, False))

    async def picture(self):
        shown = await self.call("execute_code", code=PICTURE)
        expect_in("named", "dot.png (69 bytes, image/png)", shown.text)
        if shown.n_pictures is not None:
            expect("pictures", shown.n_pictures, 1)

    async def output_of_5_mb(self):
        code = "print('begin', 'x' * 5_000_000, 'end')"
        answer = await self.call("execute_code", code=code)
        expect("cut", (answer.text[:6], len(answer.text) < 20_000, "end\n" in answer.text[-300:]), ("begin ", True, True))
        expect_in("counted", "bytes left out", answer.text)

    async def close(self):
        await self.call("session", action="close", session=self.session)


async def take(client, results):
    """Takes every step, the long ones at once. Notes the seconds of each, or what was wrong."""
    steps = Steps(client)

    async def step(name):
        began = time.monotonic()
        try:
            # A client that waits forever is one that failed.
            async with asyncio.timeout(100):
                await getattr(steps, name)()
            results[name] = round(time.monotonic() - began, 1)
        except Exception as error:
            results[name] = "%s: %s" % (type(error).__name__, error)

    for name in ("list", "code", "state", "files", "grep", "refusal", "picture", "output_of_5_mb"):
        await step(name)
    await asyncio.gather(*(step(name) for name in ("cancellation", "run_of_7_s", "run_of_30_s")))
    await step("close")


async def idle(client, results, seconds):
    """Does nothing for a while, in a session that is open."""
    steps = Steps(client)
    await steps.state()
    await asyncio.sleep(seconds)
    expect("state after a while", (await steps.call("execute_code", code="x", session=steps.session)).text, "20")
    await steps.close()
    results["idle"] = seconds
