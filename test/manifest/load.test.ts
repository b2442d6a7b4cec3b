import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, symlink, truncate, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { stepTypes } from '../../src/config/steps.ts';
import { handlerTable } from '../../src/flows/handlers/index.ts';
import { formatIssue } from '../../src/manifest/issues.ts';
import { loadManifests } from '../../src/manifest/load.ts';
import { temporaryFolder } from '../temporary.ts';
import { FLOW_ID, goodManifest, rules } from './rules.ts';

const OTHER_ID = '7c9e6679-7425-40de-944b-e07fc1f90ae7';

let folder = '';

beforeEach(async () => {
  folder = temporaryFolder('manifests');
});

async function load(files: Record<string, unknown>, handlers = rules.handlers) {
  for (const [name, content] of Object.entries(files)) {
    await writeFile(join(folder, name), typeof content === 'string' ? content : JSON.stringify(content));
  }
  const { flows, issues } = await loadManifests(folder, { ...rules, handlers });
  // Manifests written by a program have one line; another test checks the positions of issues.
  const lines = issues.map(({ line, column, ...issue }) => formatIssue(issue).replaceAll(`${folder}/`, ''));
  return { flows, lines, names: flows.map((flow) => flow.manifest.name) };
}

function hook(slug: string) {
  return { type: 'webhook', inputs: { webhookSlug: slug } };
}

describe('a folder', () => {
  it('may only name flows of its own for failed runs, and none itself', async () => {
    const { lines, names } = await load({
      'good.json': { ...goodManifest(), onFailure: OTHER_ID.toUpperCase() },
      'alarm.json': { id: OTHER_ID, version: '1', onFailure: OTHER_ID },
      'typo.json': { id: '1b4e28ba-2fa1-41d2-883f-0016d3cca427', version: '1', onFailure: FLOW_ID.replace('0', '1') },
      'name.json': { id: '1b4e28ba-2fa1-41d2-883f-0016d3cca428', version: '1', onFailure: 'Alarm' },
    });
    expect(names).toContain('Orders');
    expect(lines).toEqual([
      'error alarm.json onFailure: is this flow itself',
      `error name.json onFailure: is "Alarm", which is not the id of a flow; that flow's is ${OTHER_ID}`,
      `error typo.json onFailure: is ${FLOW_ID.replace('0', '1')}, which is not the id of a flow in this folder`,
    ]);
  });

  it('has flows that run flows of its own, named by constants, and none that runs itself in the end', async () => {
    const ids = ['1b4e28ba-2fa1-41d2-883f-0016d3cca421', '1b4e28ba-2fa1-41d2-883f-0016d3cca422', OTHER_ID];
    const runs = (flow: string | undefined, more = {}) => ({ go: { type: 'RunFlow', inputs: { flow, ...more } } });
    const loop = { each: { type: 'ForEach', forEach: [1], steps: runs(ids[2]) } };
    const { lines } = await load(
      {
        'a.json': { id: ids[0], name: 'A', version: '1', steps: loop },
        'b.json': { id: ids[2], name: 'B', version: '1', steps: runs(ids[0]?.toUpperCase()) },
        'c.json': { id: FLOW_ID, version: '1', steps: runs(FLOW_ID) },
        'd.json': { id: ids[1], version: '1', steps: runs('7c9e6679-7425-40de-944b-e07fc1f90ae8') },
        'f.json': { id: FLOW_ID.replace('0', '2'), version: '1', steps: runs('b') },
        'g.json': { id: FLOW_ID.replace('0', '3'), version: '1', steps: runs('nobody') },
        'e.json': {
          id: FLOW_ID.replace('0', '1'),
          version: '1',
          steps: runs(`\${trigger.body.flow}`, { wait: `\${true}`, body: `\${trigger.body}` }),
        },
      },
      handlerTable(stepTypes().handlers),
    );
    const constant = 'is an expression; only a constant is accepted, because each run pins it when it starts';
    const closes = 'closes a cycle of flows that run each other:';
    expect(lines).toEqual([
      'error c.json steps.go.inputs.flow: is this flow itself',
      `error e.json steps.go.inputs.flow: ${constant}`,
      `error e.json steps.go.inputs.wait: ${constant}`,
      `error f.json steps.go.inputs.flow: is "b", which is not the id of a flow; that flow's is ${ids[2]}`,
      'error g.json steps.go.inputs.flow: is "nobody", which is not the id of a flow',
      `error a.json steps.each.steps.go.inputs.flow: ${closes} A → B → A`,
      `error b.json steps.go.inputs.flow: ${closes} B → A → B`,
      'error d.json steps.go.inputs.flow: is 7c9e6679-7425-40de-944b-e07fc1f90ae8, which is not the id of a flow in this folder',
    ]);
  });

  it('yields its manifests by name, with the issues of each', async () => {
    const { names, lines, flows } = await load({
      'b.json': goodManifest(),
      'a.json': { id: OTHER_ID, version: '1' },
      'broken.json': '{',
      'c.json': { version: '1' },
    });
    expect(names).toEqual(['a', 'Orders']);
    expect(flows[0]?.file).toBe(join(folder, 'a.json'));
    expect(lines).toEqual([
      'error broken.json: close brace expected',
      expect.stringContaining('error c.json id: is missing; a new flow may take'),
    ]);
  });

  it('yields issues with line and column: of a value, of the name of an object, or of what a missing one belongs to', async () => {
    const text = `\uFEFF
{
  "id": "${OTHER_ID}",
  "version": "1", "retries": 3,
  "Triggers": {
    "hook": { "type": "http" }, "more": { "type": "webhook", "inputs": { "webhookSlug": "twice" } },
    "same": { "type": "webhook", "inputs": { "webhookSlug": "twice" } }
  },
  "steps": {
    "a": {
      "type": "LogMessage", "inputs": {}, "when": {}
    },
    "b": { "type": "NoOp", "runAfter": { "a": ["Succeeded", "Success"] } }
  }
}`;
    await writeFile(join(folder, 'flow.json'), text);
    await writeFile(join(folder, 'syntax.json'), '{\n  "id": 1,\n  "name"\n}');
    const { issues } = await loadManifests(folder, rules);
    expect(issues.map((issue) => formatIssue(issue).replaceAll(`${folder}/`, '').split(': ')[0]).sort()).toEqual([
      'error flow.json:11:29 steps.a.inputs.message',
      'error flow.json:11:43 steps.a.when',
      'error flow.json:13:61 steps.b.runAfter.a[1]',
      'error flow.json:4:30 retries',
      'error flow.json:6:23 Triggers.hook.type',
      'error flow.json:6:89 Triggers.more.inputs.webhookSlug',
      'error flow.json:7:61 Triggers.same.inputs.webhookSlug',
      'error syntax.json:4:1',
    ]);
  });

  it('skips schemas, folders and files that are not manifests', async () => {
    await mkdir(join(folder, 'deeper'));
    await writeFile(join(folder, 'deeper', 'flow.json'), '{');
    const { names, lines } = await load({ 'manifest.schema.json': '{', 'notes.txt': '{', 'flow.jsonc': '{' });
    expect({ names, lines }).toEqual({ names: [], lines: [] });
  });

  it('skips tests, with a warning for one that looks like a manifest', async () => {
    const { names, lines } = await load({
      'good.test.json': { sluiceTest: 1, flow: FLOW_ID, steps: 'whatever' },
      'broken.test.json': '{',
      'orders.test.json': `${JSON.stringify({ ...goodManifest(), ID: FLOW_ID }).slice(0, -1)},`,
    });
    expect(names).toEqual([]);
    expect(lines).toEqual([
      'warning orders.test.json: is named like a test, so it is not loaded; rename it if it is a manifest',
    ]);
  });

  it.each([
    ['Latin-1', 'latin1'],
    ['UTF-16', 'utf16le'],
  ] as const)('refuses a file in %s with one error, and still knows its flow where it can', async (_name, encoding) => {
    const text = `\uFEFF${JSON.stringify({ ...goodManifest(), name: 'Schlüssel' })}`;
    await writeFile(join(folder, 'other.json'), Buffer.from(encoding === 'latin1' ? text.slice(1) : text, encoding));
    const { flows, unreadable, issues } = await loadManifests(folder, rules);
    expect(flows).toEqual([]);
    expect(issues.map(formatIssue)).toEqual([`error ${join(folder, 'other.json')}: is not UTF-8 text`]);
    expect(unreadable.map(({ flowId, draft }) => [flowId, draft?.manifest.id])).toEqual(
      encoding === 'latin1' ? [[FLOW_ID, FLOW_ID]] : [[undefined, undefined]],
    );
  });

  it('is read although it holds a pipe, a device or a socket, with a warning for each', async () => {
    execFileSync('mkfifo', [join(folder, 'pipe.json')]);
    await symlink('/dev/zero', join(folder, 'device.json'));
    await mkdir(join(folder, 'folder.json'));
    await symlink(join(folder, 'folder.json'), join(folder, 'link.json'));
    const server = createServer().listen(join(folder, 'socket.json'));
    await once(server, 'listening');
    const { names, lines } = await load({ 'good.json': goodManifest() });
    server.close();
    expect(names).toEqual(['Orders']);
    expect(lines).toEqual([
      'warning device.json: is a device, not a file; it is skipped',
      'warning folder.json: is a folder, not a file; it is skipped',
      'warning link.json: is a folder, not a file; it is skipped',
      'warning pipe.json: is a named pipe, not a file; it is skipped',
      'warning socket.json: is a socket, not a file; it is skipped',
    ]);
  });

  it('does not read a file into memory that is far too large for a manifest', async () => {
    await writeFile(join(folder, 'large.json'), '');
    await truncate(join(folder, 'large.json'), 2 ** 40);
    const { lines } = await load({});
    expect(lines).toEqual(['error large.json: has more than 16777216 bytes']);
  });

  it('is reported as an error if it does not exist', async () => {
    const { flows, issues } = await loadManifests(join(folder, 'nope'), rules);
    expect(flows).toEqual([]);
    expect(issues.map(formatIssue)).toEqual([`error ${join(folder, 'nope')}: cannot be read: ENOENT`]);
  });

  it('is reported as an error if it is a file', async () => {
    await writeFile(join(folder, 'file'), '');
    const { issues } = await loadManifests(join(folder, 'file'), rules);
    expect(issues.map(formatIssue)).toEqual([`error ${join(folder, 'file')}: cannot be read: ENOTDIR`]);
  });
});

describe('two manifests', () => {
  it('may not share an id in any case, even if one has other errors', async () => {
    const { names, lines } = await load({
      'a.json': { Id: FLOW_ID.toUpperCase(), version: '1' },
      'b.json': { id: FLOW_ID, version: '1', steps: { a: {} } },
      'c.json': { id: OTHER_ID, version: '1' },
    });
    expect(names).toEqual(['c']);
    expect(lines).toEqual([
      'error b.json steps.a.type: is missing; a string is accepted',
      'error a.json Id: is also the id of b.json',
      'error b.json id: is also the id of a.json',
    ]);
  });

  it('may not share a slug in any case', async () => {
    const { names, lines } = await load({
      'a.json': { id: FLOW_ID, version: '1', triggers: { one: hook('Orders'), 'o t': hook('other') } },
      'b.json': { id: OTHER_ID, version: '1', Triggers: { two: hook('orders') } },
    });
    expect(names).toEqual([]);
    expect(lines).toEqual([
      'error a.json triggers.one.inputs.webhookSlug: is also the slug of b.json Triggers.two.inputs.webhookSlug',
      'error b.json Triggers.two.inputs.webhookSlug: is also the slug of a.json triggers.one.inputs.webhookSlug',
    ]);
  });

  it('may not repeat a slug between their own triggers either', async () => {
    const { names, lines } = await load({
      'a.json': { id: FLOW_ID, version: '1', triggers: { one: hook('orders'), two: hook('ORDERS') } },
    });
    expect(names).toEqual([]);
    expect(lines).toEqual([
      'error a.json triggers.one.inputs.webhookSlug: is also the slug of a.json triggers.two.inputs.webhookSlug',
      'error a.json triggers.two.inputs.webhookSlug: is also the slug of a.json triggers.one.inputs.webhookSlug',
    ]);
  });
});
