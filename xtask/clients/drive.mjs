// Uses a Ringfence server through a TypeScript SDK. Arguments: SDK (client or sdk), MODE (legacy or auto), seconds of idling, then
// a URL or a command. Prints the result of each step as one JSON object, and fails if one of them did.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

const [kind, mode, idle, ...target] = process.argv.slice(2);

const PICTURE = readFileSync(new URL('picture.py', import.meta.url), 'utf8');

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

async function callOnce(name, args, options) {
  const result = await callTool({ name, arguments: args }, options);
  const data = result.structuredContent;
  assert.equal(Boolean(result.isError), !['ok', 'running'].includes(data.status), name);
  return { data, content: result.content, text: result.content[0].text };
}

// Waits for a run that a busy machine makes a long one.
async function call(name, args) {
  const until = Date.now() + 60_000;
  let answer = await callOnce(name, args);
  while (answer.data.status === 'running' && Date.now() < until) answer = await callOnce('wait', { run_id: answer.data.run_id });
  return answer;
}

async function longRun(lines, name, args) {
  const until = Date.now() + 90_000;
  let [seen, answer, nCalls] = ['', await callOnce(name, args), 1];
  for (; answer.data.status === 'running' && Date.now() < until; nCalls++) {
    seen += answer.data.stdout ?? '';
    answer = await callOnce('wait', { run_id: answer.data.run_id, cursor: answer.data.cursor });
  }
  assert.equal(seen + (answer.data.stdout ?? ''), lines.join('\n') + '\n');
  assert(nCalls > 1, 'answered before it ended');
}

let session;
const steps = {
  async list() {
    const names = (await client.listTools()).tools.map((tool) => tool.name);
    for (const name of ['execute_code', 'run_command', 'wait', 'read_file', 'write_file', 'edit_file', 'list_dir', 'grep', 'session']) assert(names.includes(name), name);
  },
  async code() {
    assert.equal((await call('execute_code', { code: '6 * 7' })).data.value, '42');
  },
  async state() {
    session = (await call('session', { action: 'create' })).data.session_id;
    await call('execute_code', { code: 'x = 20', session });
    assert.equal((await call('execute_code', { code: 'x + 1', session })).data.value, '21');
  },
  async files() {
    const at = { session, path: 'a/b.txt' };
    await call('write_file', { ...at, content: 'one\ntwo\n' });
    assert.equal((await call('read_file', at)).data.content, 'one\ntwo\n');
    assert.equal((await call('edit_file', { ...at, edits: [{ old: 'two', new: 'three' }] })).data.n_replaced, 1);
    assert.equal((await call('read_file', at)).data.content, 'one\nthree\n');
  },
  async grep() {
    const { matches } = (await call('grep', { session, pattern: 'thr.e' })).data;
    assert.deepEqual(matches.map((hit) => [hit.path, hit.line]), [['a/b.txt', 2]]);
  },
  async refusal() {
    const { data } = await call('execute_code', { code: 'object.__subclasses__()' });
    assert.deepEqual([data.status, data.ran], ['blocked', 'no']);
    const wrong = await call('read_file', { session, path: 'a/b.txt', offset: -1 });
    assert.match(wrong.text, /`offset`/);
  },
  async picture() {
    const { content } = await call('execute_code', { code: PICTURE });
    assert.equal(content.filter((block) => block.type === 'image').length, 1);
    const link = content.find((block) => block.type === 'resource_link');
    assert.equal((await client.readResource({ uri: link.uri })).contents[0].mimeType, 'image/png');
  },
  async output_of_5_mb() {
    const { text, content } = await call('execute_code', { code: "print('begin', 'x' * 5_000_000, 'end')" });
    assert(text.startsWith('begin ') && text.length < 20_000 && text.slice(-300).includes('end\n'), text.slice(0, 300));
    const link = content.find((block) => block.type === 'resource_link');
    assert((await client.readResource({ uri: link.uri })).contents[0].text.startsWith('begin '));
  },
  // A command that is called off does not come to its end.
  async cancellation() {
    const command = 'touch begun; sleep 5; touch late';
    let left = [];
    // On a busy machine it may not begin before it is called off, which shows nothing.
    for (let n = 0; n < 5 && !left.includes('begun'); n++) {
      await assert.rejects(callOnce('run_command', { command, session }, { signal: AbortSignal.timeout(1500) }));
      await sleep(6000);
      left = (await call('list_dir', { session })).data.entries.map((entry) => entry.path);
    }
    assert.deepEqual([left.includes('begun'), left.includes('late')], [true, false]);
  },
  async run_of_7_s() {
    await longRun(['1', '2', '3', '4', '5', '6', '7'], 'execute_code', { code: 'import time\nfor i in range(1, 8):\n    print(i)\n    time.sleep(1)' });
  },
  async run_of_30_s() {
    await longRun(['1', '2', '3', '4', '5', '6'], 'run_command', { command: 'for i in 1 2 3 4 5 6; do echo $i; sleep 5; done' });
  },
  async close() {
    await call('session', { action: 'close', session });
  },
  async idle() {
    await steps.state();
    await sleep(Number(idle) * 1000);
    assert.equal((await call('execute_code', { code: 'x', session })).data.value, '20');
    await steps.close();
  },
};

const results = {};
async function take(name) {
  const began = Date.now();
  try {
    await steps[name]();
    results[name] = Math.round((Date.now() - began) / 100) / 10;
  } catch (error) {
    results[name] = String(error);
  }
}

if (Number(idle)) {
  await take('idle');
} else {
  for (const name of ['list', 'code', 'state', 'files', 'grep', 'refusal', 'picture', 'output_of_5_mb']) await take(name);
  await Promise.all(['cancellation', 'run_of_7_s', 'run_of_30_s'].map(take));
  await take('close');
}
await client.close();
const name = `@modelcontextprotocol/${kind}`;
const release = JSON.parse(readFileSync(new URL(`./node_modules/${name}/package.json`, import.meta.url))).version;
console.log(JSON.stringify({ client: name, release, steps: results }));
process.exit(Object.values(results).some((result) => typeof result === 'string') ? 1 : 0);
