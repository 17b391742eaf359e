"""Uses a Ringfence server through one Python client. Arguments: CLIENT, MODE, seconds of idling, then a URL or a command.

Prints the result of each step as one JSON object, and fails if one of them did.
"""
import asyncio
import contextlib
import importlib.metadata
import json
import os
import sys
import threading

from steps import Answer, idle, take


def of_result(result):
    """An answer of a `CallToolResult`, in the spelling of either major release."""
    fields = result.model_dump(by_alias=True, mode="json")
    content = fields["content"]
    return Answer(
        text="\n".join(block["text"] for block in content if block["type"] == "text"),
        is_error=bool(fields.get("isError")),
        n_pictures=sum(block["type"] == "image" for block in content),
        data=fields.get("structuredContent"),
    )


class Client:
    """Abandons calls as a program does that gives up on a coroutine."""

    async def abandon(self, seconds, tool, **arguments):
        try:
            async with asyncio.timeout(seconds):
                await self.call(tool, **arguments)
        except TimeoutError:
            return
        raise AssertionError("a call that was called off was answered")


class Mcp2(Client):
    package = "mcp"

    @contextlib.asynccontextmanager
    async def open(self, mode, target):
        from mcp import Client
        from mcp.client.stdio import StdioServerParameters, stdio_client

        server = target[0] if is_url(target) else stdio_client(StdioServerParameters(command=target[0], args=target[1:]))
        async with Client(server, mode=mode) as self.client:
            yield

    async def names(self):
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def call(self, tool, **arguments):
        return of_result(await self.client.call_tool(tool, arguments))


class Mcp1(Client):
    package = "mcp"

    @contextlib.asynccontextmanager
    async def open(self, _mode, target):
        from mcp import ClientSession
        from mcp.client.stdio import StdioServerParameters, stdio_client
        from mcp.client.streamable_http import streamable_http_client

        if is_url(target):
            transport = streamable_http_client(target[0])
        else:
            transport = stdio_client(StdioServerParameters(command=target[0], args=target[1:]))
        async with transport as streams, ClientSession(*streams[:2]) as self.session:
            await self.session.initialize()
            yield

    async def names(self):
        return [tool.name for tool in (await self.session.list_tools()).tools]

    async def call(self, tool, **arguments):
        return of_result(await self.session.call_tool(tool, arguments))

    async def abandon(self, seconds, tool, **arguments):
        from mcp import types

        # This release does not tell the server of a coroutine that was cancelled; its users do.
        request_id = self.session._request_id
        await super().abandon(seconds, tool, **arguments)
        params = types.CancelledNotificationParams(requestId=request_id, reason="enough")
        await self.session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))


class FastMcp(Client):
    package = "fastmcp"

    @contextlib.asynccontextmanager
    async def open(self, _mode, target):
        from fastmcp import Client
        from fastmcp.client.transports import StdioTransport

        async with Client(target[0] if is_url(target) else StdioTransport(target[0], target[1:])) as self.client:
            yield

    async def names(self):
        return [tool.name for tool in await self.client.list_tools()]

    async def call(self, tool, **arguments):
        return of_result(await self.client.call_tool_mcp(tool, arguments))


class LangChain(Client):
    package = "langchain-mcp-adapters"

    @contextlib.asynccontextmanager
    async def open(self, _mode, target):
        from langchain_mcp_adapters.client import MultiServerMCPClient
        from langchain_mcp_adapters.tools import load_mcp_tools

        if is_url(target):
            # As documented: a session for each call.
            self.client, client = None, MultiServerMCPClient({"ringfence": {"transport": "streamable_http", "url": target[0]}})
            self.tools = {tool.name: tool for tool in await client.get_tools()}
            yield
            return
        connection = {"transport": "stdio", "command": target[0], "args": target[1:]}
        self.client = MultiServerMCPClient({"ringfence": connection})
        async with self.client.session("ringfence") as session:
            self.tools = {tool.name: tool for tool in await load_mcp_tools(session)}
            yield

    async def abandon(self, seconds, tool, **arguments):
        from langchain_mcp_adapters.tools import load_mcp_tools

        if self.client is None:
            return await super().abandon(seconds, tool, **arguments)
        # It does not tell the server of a coroutine that was cancelled, but a program can leave.
        async with self.client.session("ringfence") as session:
            tools = {tool.name: tool for tool in await load_mcp_tools(session)}
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(tools[tool].ainvoke(arguments), seconds)

    async def names(self):
        return list(self.tools)

    async def call(self, tool, **arguments):
        asked = {"type": "tool_call", "id": "1", "name": tool, "args": arguments}
        message = await self.tools[tool].ainvoke(asked)
        blocks = message.content
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        return Answer(
            text="\n".join(block["text"] for block in blocks if block["type"] == "text"),
            is_error=message.status == "error",
            # A link to a picture becomes one without contents.
            n_pictures=sum(block["type"] == "image" and "base64" in block for block in blocks),
            data=message.artifact and message.artifact["structured_content"],
        )


class OpenAiAgents(Client):
    package = "openai-agents"

    @contextlib.asynccontextmanager
    async def open(self, _mode, target):
        from agents import Agent, RunContextWrapper
        from agents.mcp import MCPServerStdio, MCPServerStreamableHttp, MCPUtil

        if is_url(target):
            server = MCPServerStreamableHttp(params={"url": target[0]})
        else:
            server = MCPServerStdio(params={"command": target[0], "args": target[1:]})
        async with server:
            context, agent = RunContextWrapper(None), Agent(name="drive")
            tools = await MCPUtil.get_function_tools(server, convert_schemas_to_strict=False, run_context=context, agent=agent)
            self.tools = {tool.name: tool for tool in tools}
            yield

    async def names(self):
        return list(self.tools)

    async def call(self, tool, **arguments):
        from agents.tool_context import ToolContext

        text = json.dumps(arguments)
        context = ToolContext(None, tool_name=tool, tool_call_id="1", tool_arguments=text)
        parts = await self.tools[tool].on_invoke_tool(context, text)
        if isinstance(parts, str):
            # What its model reads of a call that raised.
            return Answer(text=parts, is_error=True)
        parts = parts if isinstance(parts, list) else [parts]
        texts = [part["text"] for part in parts if part["type"] == "text"]
        return Answer(
            # Links come as JSON.
            text="\n".join(text for text in texts if not text.startswith('{"')),
            n_pictures=sum(part["type"] == "image" for part in parts),
        )


class PydanticAi(Client):
    package = "pydantic-ai-slim"

    @contextlib.asynccontextmanager
    async def open(self, _mode, target):
        from fastmcp.client.transports import StdioTransport
        from pydantic_ai.mcp import MCPToolset

        async with MCPToolset(target[0] if is_url(target) else StdioTransport(target[0], target[1:])) as self.tools:
            yield

    async def names(self):
        return [tool.name for tool in await self.tools.list_tools()]

    async def call(self, tool, **arguments):
        from pydantic_ai import BinaryContent, ModelRetry

        try:
            got = await self.tools.direct_call_tool(tool, arguments)
        except ModelRetry as error:
            return Answer(text=in_words(json.loads(error.message)), is_error=True)
        if isinstance(got, dict):
            # Its model reads the structure alone.
            return Answer(text=in_words(got), is_error=False, n_pictures=0, data=got)
        return Answer(
            text="\n".join(part for part in got if isinstance(part, str) and "://" not in part),
            is_error=False,
            n_pictures=sum(isinstance(part, BinaryContent) for part in got),
        )


def in_words(data):
    """What a model can tell from the structure of a result."""
    words = [data[name] for name in ("value", "content") if data.get(name)]
    if data.get("stdout"):
        words.append(data["stdout"])
    if data["status"] == "running":
        words.append("call wait with run_id `%s` and cursor `%s`" % (data["run_id"], data["cursor"]))
    if data.get("info"):
        words.append("session %s" % data["session_id"])
    if data.get("created"):
        words.append("created %s" % data["path"])
    if "n_replaced" in data:
        words.append("%d replaced" % data["n_replaced"])
    words += ["%s:%d:%s" % (hit["path"], hit["line"], hit["text"]) for hit in data.get("matches", [])]
    words += [entry["path"] for entry in data.get("entries", [])]
    if data["status"] not in ("ok", "running"):
        words += ["status: " + data["status"], data["error"]["message"] if data.get("error") else ""]
    return "\n".join(words)


class SmolAgents(Client):
    package = "smolagents"

    @contextlib.asynccontextmanager
    async def open(self, _mode, target):
        self.target = target
        client, self.tools = await asyncio.to_thread(self.connect)
        try:
            yield
        finally:
            await asyncio.to_thread(client.disconnect)

    def connect(self):
        from mcp import StdioServerParameters
        from smolagents import MCPClient

        at = {"url": self.target[0]} if is_url(self.target) else StdioServerParameters(command=self.target[0], args=self.target[1:])
        client = MCPClient(at, structured_output=False)
        return client, {tool.name: tool for tool in client.get_tools()}

    async def names(self):
        return list(self.tools)

    async def call(self, tool, **arguments):
        # Its tools return the first part, and errors as if they were none.
        return Answer(text=await asyncio.to_thread(self.tools[tool], **arguments))

    async def abandon(self, seconds, tool, **arguments):
        # A call cannot be called off, but a program can leave.
        client, tools = await asyncio.to_thread(self.connect)

        def call():
            with contextlib.suppress(Exception):
                tools[tool](**arguments)

        threading.Thread(target=call, daemon=True).start()
        await asyncio.sleep(seconds)
        await asyncio.to_thread(client.disconnect)


class McpUse(Client):
    package = "mcp-use"

    @contextlib.asynccontextmanager
    async def open(self, _mode, target):
        self.target = target
        client, self.tools = await self.connect()
        try:
            yield
        finally:
            await client.close_all_sessions()

    async def connect(self):
        os.environ["MCP_USE_ANONYMIZED_TELEMETRY"] = "false"
        from mcp_use import MCPClient
        from mcp_use.agents.adapters.langchain_adapter import LangChainAdapter

        at = {"url": self.target[0]} if is_url(self.target) else {"command": self.target[0], "args": self.target[1:]}
        client = MCPClient(config={"mcpServers": {"ringfence": at}})
        await client.create_all_sessions()
        return client, {tool.name: tool for tool in await LangChainAdapter().create_tools(client)}

    async def names(self):
        return list(self.tools)

    async def call(self, tool, **arguments):
        got = await self.tools[tool].ainvoke(arguments)
        if isinstance(got, dict):
            return Answer(text=got["details"], is_error=True)
        blocks = [{"type": "text", "text": got}] if isinstance(got, str) else got
        return Answer(
            text=blocks[0]["text"],
            is_error=False,
            n_pictures=sum(block["type"] == "image" for block in blocks),
        )

    async def abandon(self, seconds, tool, **arguments):
        # It does not tell the server of a coroutine that was cancelled, but a program can leave.
        client, tools = await self.connect()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(tools[tool].ainvoke(arguments), seconds)
        await client.close_all_sessions()


CLIENTS = {
    "mcp2": Mcp2,
    "mcp1": Mcp1,
    "fastmcp": FastMcp,
    "langchain": LangChain,
    "mcp-use": McpUse,
    "openai-agents": OpenAiAgents,
    "pydantic-ai": PydanticAi,
    "smolagents": SmolAgents,
}


def is_url(target):
    return target[0].startswith("http")


async def drive(name, mode, idle_s, target):
    client, results = CLIENTS[name](), {}
    release = importlib.metadata.version(client.package)
    async with client.open(mode, target):
        if idle_s:
            await idle(client, results, idle_s)
        else:
            await take(client, results)
    print(json.dumps({"client": client.package, "release": release, "steps": results}))
    return any(isinstance(result, str) for result in results.values())


sys.exit(asyncio.run(drive(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4:])))
