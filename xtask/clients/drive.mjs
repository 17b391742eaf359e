// Uses a Ringfence server as a host would, through a TypeScript SDK. Arguments: SDK (client or sdk), MODE (legacy or auto), then
// a URL or a command. Prints what it saw as one JSON object; anything that is not as it should be is an exception.
import assert from 'node:assert/strict';

const [kind, mode, ...target] = process.argv.slice(2);

async function connect() {
  const info = { name: 'drive', version: '1' };
  if (kind === 'sdk') {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const client = new Client(info);
    await client.connect(transport(StdioClientTransport, StreamableHTTPClientTransport));
    return [client, (params, options) => client.callTool(params, undefined, options)];
  }
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
  const client = new Client(info, { versionNegotiation: { mode } });
  await client.connect(transport(StdioClientTransport, StreamableHTTPClientTransport));
  return [client, (params, options) => client.callTool(params, options)];
}

function transport(Stdio, Http) {
  return target[0].startsWith('http') ? new Http(new URL(target[0])) : new Stdio({ command: target[0], args: target.slice(1), stderr: 'ignore' });
}

const [client, callTool] = await connect();
const tools = (await client.listTools()).tools.map((tool) => tool.name);
for (const name of ['execute_code', 'run_command', 'read_file', 'write_file', 'grep', 'session']) assert(tools.includes(name), name);

async function call(name, args, options) {
  const result = await callTool({ name, arguments: args }, options);
  const data = result.structuredContent;
  assert.equal(Boolean(result.isError), !['ok', 'running'].includes(data.status), name);
  return data;
}

assert.equal((await call('execute_code', { code: '6 * 7' })).value, '42');
const session = (await call('session', { action: 'create' })).session_id;
await call('execute_code', { code: 'x = 20', session });
assert.equal((await call('execute_code', { code: 'x + 1', session })).value, '21');
await call('write_file', { session, path: 'a/b.txt', content: 'one\ntwo\n' });
assert.equal((await call('read_file', { session, path: 'a/b.txt' })).content, 'one\ntwo\n');
const { matches } = await call('grep', { session, pattern: 'tw.' });
assert.deepEqual(matches.map((hit) => [hit.path, hit.line]), [['a/b.txt', 2]]);
const blocked = await call('execute_code', { code: 'import subprocess' });
assert.deepEqual([blocked.status, blocked.ran], ['blocked', 'no']);
assert.equal((await call('execute_code', { code: 'while True: pass', timeout_s: 0.3 })).status, 'timeout');
const began = Date.now();
await assert.rejects(call('run_command', { command: 'sleep 60', session }, { signal: AbortSignal.timeout(500) }));
// What was cancelled is gone, so that the session is free again.
assert.equal((await call('run_command', { command: 'echo free', session })).stdout, 'free\n');
assert(Date.now() - began < 5000, 'cancelled in time');
await call('session', { action: 'close', session });
await client.close();
console.log(JSON.stringify({ client: `typescript ${kind}`, mode, tools: tools.length }));
