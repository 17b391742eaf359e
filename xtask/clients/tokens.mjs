// Counts the tokens of the list of tools and of a small result, over stdio. Arguments: the most tokens of each, then the command.
// Prints one JSON object.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';

const [listMax, valueMax, command, ...args] = process.argv.slice(2);
const server = spawn(command, args, { stdio: ['pipe', 'pipe', 'ignore'] });
const waiting = new Map();
createInterface({ input: server.stdout }).on('line', (line) => {
  const message = JSON.parse(line);
  waiting.get(message.id)?.(message);
});

let id = 0;
const write = (message) => server.stdin.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\n');
const ask = (method, params) =>
  new Promise((resolve) => {
    waiting.set(++id, resolve);
    write({ id, method, params });
  });
const run = async (code) => (await ask('tools/call', { name: 'execute_code', arguments: { code } })).result;

await ask('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'tokens', version: '1' } });
write({ method: 'notifications/initialized' });

const list = countTokens(JSON.stringify((await ask('tools/list', {})).result.tools));
// A worker that waits, as there is after the first call.
await run('1');
const { structuredContent } = await run('6*7');
assert.equal(structuredContent.value, '42', JSON.stringify(structuredContent));
const value = countTokens(JSON.stringify(structuredContent));

server.stdin.end();
assert(list <= Number(listMax), `tools/list has ${list} tokens`);
assert(value <= Number(valueMax), `6*7 has ${value} tokens`);
console.log(JSON.stringify({ tokens_of_tools_list: list, tokens_of_6x7: value }));
process.exit(0);
