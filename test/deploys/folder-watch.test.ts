import { mkdir, rename, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { findChanges, watchFiles } from '../../src/deploys/folder-watch.ts';
import { stampOf } from '../../src/manifest/read-file.ts';
import { eventually, FLOW_ID, githubManifest } from '../e2e/service.ts';
import { ask, push, useFolderApp } from '../folder-app.ts';

const workspace = useFolderApp();
const flowText = (version: string, inputs = {}) =>
  JSON.stringify({ ...githubManifest({ steps: { first: { type: 'NoOp' } }, inputs }), version });
const at = (...names: string[]) => join(workspace.folder, ...names);

describe('a watched folder', () => {
  let folder: string;
  beforeEach(() => {
    folder = at('manifests');
  });
  const start = () => workspace.start({}, { watch: true });
  const version = async () => (await workspace.ask('GET', `/flows/${FLOW_ID}`)).answer.version;
  const deploys = (expected: string) => eventually(version, (found) => found === expected);
  const reloads = () => workspace.logged.filter((line) => line.includes('the manifests cannot be loaded')).length;
  /** A release folder with one version of the manifest. */
  const release = async (name: string, its: string) => {
    await mkdir(at(name), { recursive: true });
    await writeFile(at(name, 'push.json'), flowText(its));
  };

  it('is seen again after it was removed and made again', async () => {
    await release('manifests', '1');
    await start();
    await rm(folder, { recursive: true });
    await eventually(reloads, (count) => count > 0);
    expect(await version()).toBe('1');
    await release('manifests', '2');
    await deploys('2');
    await release('manifests', '3');
    await deploys('3');
  });

  it('is seen if another folder is moved into its place', async () => {
    await release('manifests', '1');
    await release('next', '2');
    await start();
    await rename(folder, at('former'));
    await rename(at('next'), folder);
    await deploys('2');
    await release('manifests', '3');
    await deploys('3');
  });

  it('is seen if it is a link that is switched to another folder', async () => {
    await release('one', '1');
    await release('two', '2');
    await rm(folder, { recursive: true, force: true });
    await symlink('one', folder);
    await start();
    await symlink('two', at('link'));
    await rename(at('link'), folder);
    await deploys('2');
    await release('two', '3');
    await deploys('3');
  });

  it('is seen if Kubernetes replaces the folder behind its links', async () => {
    await release('manifests/..one', '1');
    await symlink('..one', at('manifests', '..data'));
    await symlink('..data/push.json', at('manifests', 'push.json'));
    await start();
    await release('manifests/..two', '2');
    await symlink('..two', at('manifests', '..next'));
    await rename(at('manifests', '..next'), at('manifests', '..data'));
    await rm(at('manifests', '..one'), { recursive: true });
    await deploys('2');
  });

  it('is seen if the target of a linked manifest changes', async () => {
    await release('elsewhere', '1');
    await mkdir(folder, { recursive: true });
    await symlink('../elsewhere/push.json', at('manifests', 'push.json'));
    await start();
    await release('elsewhere', '2');
    await deploys('2');
  });

  it.each(['order.schema', '../schemas/order'])(
    'is read again if %s changes, which a manifest names',
    async (named) => {
      await mkdir(at('schemas'));
      await mkdir(folder, { recursive: true });
      const schema = at('manifests', named);
      await writeFile(schema, '{"type":"object"}');
      await writeFile(at('manifests', 'push.json'), flowText('1', { webhookBodySchema: `file:${named}` }));
      // Another schema may let other bodies in.
      const app = await workspace.start({}, { watch: true, allow: ['access'] });
      await writeFile(schema, '{"type":"object","required":["total"]}');
      await eventually(
        async () => (await ask(app, 'GET', `/flows/${FLOW_ID}`)).answer.revision,
        (revision) => revision === 2,
      );
      expect(await push(app)).toMatchObject({ status: 422 });
    },
  );

  it('is read again if a file appears that a manifest names', async () => {
    await release('manifests', '1');
    const app = await start();
    await writeFile(at('manifests', 'push.json'), flowText('2', { webhookBodySchema: 'file:order.schema' }));
    await eventually(
      () => workspace.logged.join(''),
      (text) => text.includes('order.schema'),
    );
    expect(await version()).toBe('1');
    await writeFile(at('manifests', 'order.schema'), '{"type":"object"}');
    await deploys('2');
    expect((await ask(app, 'GET', `/flows/${FLOW_ID}`)).answer.revision).toBe(2);
  });
});

describe('a look at a watched folder', () => {
  let folder: string;
  let namedFiles: Map<string, string>;
  beforeEach(async () => {
    folder = at('manifests');
    namedFiles = new Map();
    await writeFile(join(folder, 'a.json'), '{}');
  });
  const begin = () => findChanges({ folder, namedFiles });

  it('finds a change once two looks in a row see the same', async () => {
    const look = await begin();
    expect(await look()).toBe('same');
    await writeFile(join(folder, 'b.json'), '{');
    expect(await look()).toBe('changing');
    await writeFile(join(folder, 'b.json'), '{}');
    expect(await look()).toBe('changing');
    expect(await look()).toBe('changed');
    expect(await look()).toBe('same');
  });

  it('finds a change after the look that found one', async () => {
    const look = await begin();
    await writeFile(join(folder, 'b.json'), '{');
    expect([await look(), await look()]).toEqual(['changing', 'changed']);
    await writeFile(join(folder, 'b.json'), '{}');
    expect([await look(), await look(), await look()]).toEqual(['changing', 'changed', 'same']);
  });

  it('finds 500 new manifests at once, and 500 removed ones', async () => {
    const look = await begin();
    const files = Array.from({ length: 500 }, (_, n) => join(folder, `m${n}.json`));
    await Promise.all(files.map((file) => writeFile(file, '{}')));
    expect([await look(), await look(), await look()]).toEqual(['changing', 'changed', 'same']);
    await Promise.all(files.map((file) => rm(file)));
    expect([await look(), await look(), await look()]).toEqual(['changing', 'changed', 'same']);
  });

  it.each(['.a.json.swp', 'a.json~', '#a.json#', '4913', 'a.json.orig'])('ignores %s of an editor', async (name) => {
    const look = await begin();
    await writeFile(join(folder, name), '{}');
    expect(await look()).toBe('same');
  });

  it('finds that the folder is away, once, and that it is back', async () => {
    const look = await begin();
    await rename(folder, at('former'));
    expect([await look(), await look(), await look(), await look()]).toEqual(['changing', 'changed', 'same', 'same']);
    await rename(at('former'), folder);
    expect([await look(), await look(), await look()]).toEqual(['changing', 'changed', 'same']);
  });

  it('finds a new file that has the size and times of the former one', async () => {
    const look = await begin();
    const { atime, mtime } = await stat(join(folder, 'a.json'));
    await writeFile(at('new'), '[]');
    await utimes(at('new'), atime, mtime);
    await rename(at('new'), join(folder, 'a.json'));
    expect(await look()).toBe('changing');
  });

  it('finds no change in a link that leads nowhere or to itself', async () => {
    await symlink('nowhere', join(folder, 'dangling.json'));
    await symlink('round.json', join(folder, 'round.json'));
    const look = await begin();
    expect([await look(), await look()]).toEqual(['same', 'same']);
  });

  it('finds that a named file changed after it was read, even before it was looked at', async () => {
    const look = await begin();
    const named = at('schema');
    await writeFile(named, '{}');
    namedFiles.set(named, await stampOf(named));
    expect(await look()).toBe('same');
    await writeFile(named, '{ }');
    expect([await look(), await look(), await look()]).toEqual(['changing', 'changed', 'same']);
    const other = at('other');
    namedFiles.set(other, await stampOf(other));
    await writeFile(other, '{}');
    expect([await look(), await look(), await look()]).toEqual(['changing', 'changed', 'same']);
  });
});

it('looks by a timer that does not keep the process up, and is gone once the watch is stopped', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    const set = vi.spyOn(globalThis, 'setTimeout');
    const stop = await watchFiles({ folder: at('manifests'), namedFiles: new Map() }, async () => {});
    expect(set.mock.results.map(({ value }) => value.hasRef())).toEqual([false]);
    stop();
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.restoreAllMocks();
    vi.useRealTimers();
  }
});
