"""Uses a Ringfence server as a host would, through the Python SDK. Arguments: MODE (legacy or auto), then a URL or a command.

Prints what it saw as one JSON object; anything that is not as it should be is an exception.
"""
import asyncio
import json
import sys
import time

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client


def expect(what, got, wanted):
    if got != wanted:
        raise AssertionError("%s: %r, not %r" % (what, got, wanted))


async def drive(mode, target):
    server = target[0] if target[0].startswith("http") else stdio_client(StdioServerParameters(command=target[0], args=target[1:]))
    async with Client(server, mode=mode) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        for name in ("execute_code", "run_command", "read_file", "write_file", "grep", "session"):
            expect(name, name in tools, True)

        async def call(tool, **arguments):
            result = await client.call_tool(tool, arguments)
            data = result.structured_content
            expect("isError of %s" % tool, bool(result.is_error), data["status"] not in ("ok", "running"))
            return data

        expect("value", (await call("execute_code", code="6 * 7"))["value"], "42")
        session = (await call("session", action="create"))["session_id"]
        await call("execute_code", code="x = 20", session=session)
        expect("state", (await call("execute_code", code="x + 1", session=session))["value"], "21")
        await call("write_file", session=session, path="a/b.txt", content="one\ntwo\n")
        expect("file", (await call("read_file", session=session, path="a/b.txt"))["content"], "one\ntwo\n")
        found = (await call("grep", session=session, pattern="tw."))["matches"]
        expect("grep", [(hit["path"], hit["line"]) for hit in found], [("a/b.txt", 2)])
        blocked = await call("execute_code", code="import subprocess")
        expect("blocked", (blocked["status"], blocked["ran"]), ("blocked", "no"))
        expect("timeout", (await call("execute_code", code="while True: pass", timeout_s=0.3))["status"], "timeout")
        began = time.monotonic()
        try:
            async with asyncio.timeout(0.5):
                await call("run_command", command="sleep 60", session=session)
            raise AssertionError("a cancelled call was answered")
        except TimeoutError:
            pass
        # What was cancelled is gone, so that the session is free again.
        expect("after", (await call("run_command", command="echo free", session=session))["stdout"], "free\n")
        expect("cancelled in time", time.monotonic() - began < 5, True)
        await call("session", action="close", session=session)
        return {"client": "python mcp", "mode": mode, "tools": len(tools)}


print(json.dumps(asyncio.run(drive(sys.argv[1], sys.argv[2:]))))
