// Looks at what no SDK shows: raw messages over stdio. Counts tokens of the list of tools and of a small result, sends malformed
// params, and reads progress notifications. Arguments: the most tokens of each, then the command. Prints one JSON object.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';

const [listMax, valueMax, command, ...args] = process.argv.slice(2);
const server = spawn(command, args, { stdio: ['pipe', 'pipe', 'ignore'] });
const [waiting, notes] = [new Map(), []];
createInterface({ input: server.stdout }).on('line', (line) => {
  const message = JSON.parse(line);
  if (message.method) notes.push(message);
  else waiting.get(message.id)?.(message);
});

let id = 0;
const write = (message) => server.stdin.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\n');
const ask = (method, params) =>
  new Promise((resolve) => {
    waiting.set(++id, resolve);
    write({ id, method, params });
  });
const call = async (name, args, _meta) => (await ask('tools/call', { name, arguments: args, _meta })).result;

await ask('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'wire', version: '1' } });
write({ method: 'notifications/initialized' });

const { tools } = (await ask('tools/list', {})).result;
const list = countTokens(JSON.stringify(tools));
// A worker that waits, as there is after the first call.
await call('execute_code', { code: '1' });
const value = countTokens(JSON.stringify((await call('execute_code', { code: '6*7' })).structuredContent));

// Gemini refuses an enum without a type.
const enums = [];
const look = (schema) => {
  if (schema === null || typeof schema !== 'object') return;
  if (Array.isArray(schema.enum)) enums.push(schema);
  Object.values(schema).forEach(look);
};
tools.forEach((tool) => look(tool.inputSchema));
assert(enums.length > 0 && enums.every((schema) => typeof schema.type === 'string'), 'every enum has a type');

const malformed = [
  ['tools/call', undefined], ['tools/call', {}], ['tools/call', []], ['tools/call', { name: 5 }], ['tools/call', { name: 'grep', arguments: [] }],
  ['tools/call', { name: 'no_such_tool' }], ['tools/list', { cursor: 5 }], ['resources/read', {}], ['resources/read', { uri: 5 }], ['ping', [1]],
];
for (const [method, params] of malformed) assert.equal((await ask(method, params)).error?.code, -32602, `${method} ${JSON.stringify(params)}`);

for (const [name, args, said] of [
  ['read_file', { session: 'x' }, '`path` is missing'],
  ['read_file', { session: 'x', path: 'a', offset: -1 }, '`offset` is -1, not a whole number of at least 0'],
  ['session', { action: 'explode' }, '`action` is the string `explode`, not one of `create`, `info`, `fork`, `rollback`, `close`'],
  ['execute_code', { code: '1', timeout_s: 'soon' }, '`timeout_s` is the string `soon`, not a number'],
  ['edit_file', { session: 'x', path: 'a', edits: [{ old: 1 }] }, '`edits[0].new` is missing; `edits[0].old` is 1, not a string'],
]) {
  const { isError, structuredContent } = await call(name, args);
  assert(isError && structuredContent.error.message.includes(said), structuredContent.error.message);
}

// A program's own steps, with their total, up to the last; there is a worker by now, which hears of them.
const { content } = await call('session', { action: 'create' });
const session = content[0].text.split(' ').pop();
await call('execute_code', { code: '1', session });
const code = "import ringfence, time\nfor i in range(1, 5):\n    ringfence.progress(i, 4, 'page')\n    time.sleep(0.4 if i < 4 else 0)";
await call('execute_code', { code, session }, { progressToken: 'steps' });
const steps = notes.filter((note) => note.params.progressToken === 'steps').map(({ params }) => [params.progress, params.total]);
assert.deepEqual(steps.at(-1), [4, 4], JSON.stringify(steps));
assert(steps.length >= 2 && steps.every(([done, total], at) => total === 4 && (at === 0 || done > steps[at - 1][0])), JSON.stringify(steps));
await call('session', { action: 'close', session });

server.stdin.end();
assert(list <= Number(listMax), `tools/list has ${list} tokens`);
assert(value <= Number(valueMax), `6*7 has ${value} tokens`);
console.log(JSON.stringify({ tokens_of_tools_list: list, tokens_of_6x7: value, malformed: malformed.length, progress: steps.length }));
process.exit(0);
