import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { FLOW_ID } from '../e2e/service.ts';
import { useFolderApp } from '../folder-app.ts';

const OTHER_ID = '11111111-6c1d-4f0e-9a51-3f0f8d1c2a10';

const workspace = useFolderApp();
const { start, ask } = workspace;
const deployed = async (id = FLOW_ID) => {
  const { revision, version } = (await ask('GET', `/flows/${id}`)).answer;
  return { revision, version };
};

/** Without the warning of every webhook here, that it has no gate. */
const others = (warnings: readonly string[]) => warnings.filter((line) => !line.includes(': has no gate: '));

function manifest(version: string, { id = FLOW_ID, slug = 'push', name = 'push', inputs = {}, steps = {} } = {}) {
  const hook = { type: 'webhook', inputs: { webhookSlug: slug, ...inputs } };
  const first = { type: 'WaitForSignal', inputs: { signalName: 'go' } };
  return { id, name, version, triggers: { byHand: { type: 'manual' }, hook }, steps: { first, ...steps } };
}
const write = (given: object, file = 'push.json') => workspace.writeManifest(file, given);
const put = async (given: { id: string; version: string }) => {
  const { status, answer } = await ask('PUT', `/flows/${given.id}`, given);
  expect({ status, refusal: answer.refusal }).toEqual({ status: 200, refusal: null });
};

describe('a manifest of the folder that is older than what is deployed', () => {
  it('is not deployed by a restart, which names both revisions', async () => {
    await write(manifest('1'));
    await start();
    await put(manifest('2'));
    const { warnings } = await start();
    expect(await deployed()).toEqual({ revision: 2, version: '2' });
    expect(warnings.join('\n')).toMatch(/push .*revision 1, older than revision 2/);
  });

  it('is not deployed by a reload either, over HTTP or by a signal', async () => {
    await write(manifest('1'));
    const running = await start();
    await put(manifest('2'));
    await write(manifest('1', { id: OTHER_ID, slug: 'other', name: 'other' }), 'other.json');
    const { status, answer } = await ask('POST', '/flows/reload');
    const warnings = others(answer.warnings);
    expect({ status, warnings: warnings.length }).toEqual({ status: 200, warnings: 1 });
    expect(answer.outcomes).toMatchObject([
      { flowId: OTHER_ID, action: 'created' },
      { flowId: FLOW_ID, action: 'unchanged', revision: 2, version: '2', warning: warnings[0]?.slice(8) },
    ]);
    await running.reload();
    expect(await deployed()).toEqual({ revision: 2, version: '2' });
  });

  it('is not deployed if only the order of its keys, its secret or the name of its file changed', async () => {
    const { name, ...nameless } = manifest('1', {
      inputs: { webhookHmacKey: 'first', webhookSignatureScheme: 'GitHub' },
    });
    await write(nameless);
    await start();
    await put({ ...nameless, version: '2' });
    const { triggers, ...rest } = manifest('1', {
      inputs: { webhookSignatureScheme: 'GitHub', webhookHmacKey: 'another' },
    });
    const { name: _, ...reordered } = { triggers: { hook: triggers.hook, byHand: triggers.byHand }, ...rest };
    await rm(join(workspace.folder, 'manifests', 'push.json'));
    await write(reordered, 'renamed.json');
    const { warnings } = await start();
    expect(await deployed()).toEqual({ revision: 2, version: '2' });
    expect(warnings.join('\n')).toContain('older than revision 2');
  });

  it('is not deployed either once retention has removed the earlier revision, and is said to be removed', async () => {
    await write(manifest('1'));
    const first = await start();
    await put(manifest('2'));
    await first.store.purgeRevisions({ kept: 1, after: { flowId: '', revision: 0 }, limit: 10 });
    const { warnings } = await start();
    expect(await deployed()).toEqual({ revision: 2, version: '2' });
    expect(warnings.join('\n')).toContain(
      'is revision 1 (no longer kept), older than revision 2, which stays deployed',
    );
    const { status, answer } = await ask('PUT', `/flows/${FLOW_ID}`, manifest('1'));
    expect({ status, rollbackTo: answer.rollbackTo }).toEqual({ status: 409, rollbackTo: 1 });
    expect(answer.refusal).toContain('revision 1 (no longer kept)');
    for (const path of ['revisions/1', 'revisions/1/diff/2', 'revisions/2/diff/1']) {
      const gone = await ask('GET', `/flows/${FLOW_ID}/${path}`);
      expect(gone).toMatchObject({ status: 404, answer: { reason: 'revision_removed' } });
    }
    const restored = await ask('POST', `/flows/${FLOW_ID}/revisions/1/restore`);
    expect(restored).toMatchObject({ status: 404, answer: { reason: 'revision_removed' } });
    const { answer: listed } = await ask('GET', `/flows/${FLOW_ID}/revisions`);
    expect(listed).toMatchObject([
      { revision: 2, isRemoved: false },
      { revision: 1, version: '1', isRemoved: true },
    ]);
    expect((await ask('PUT', `/flows/${FLOW_ID}?allow=rollback`, manifest('1'))).answer).toMatchObject({ revision: 3 });
  });

  it('is deployed by a reload that allows it', async () => {
    await write(manifest('1'));
    await start();
    await put(manifest('2'));
    const { answer } = await ask('POST', '/flows/reload?allow=rollback');
    expect(answer).toMatchObject({ outcomes: [{ action: 'updated', revision: 3, rollbackTo: 1 }] });
    expect(others(answer.warnings)).toEqual([]);
    expect(await deployed()).toEqual({ revision: 3, version: '1' });
  });

  it('is deployed over the API if that allows it, and from then on is the newest', async () => {
    await write(manifest('1'));
    await start();
    await put(manifest('2'));
    for (const query of ['', '?allow=caution,breaking', '?dryRun=true']) {
      const { status, answer } = await ask('PUT', `/flows/${FLOW_ID}${query}`, manifest('1'));
      expect({ status, action: answer.action, rollbackTo: answer.rollbackTo }).toEqual({
        status: 409,
        action: 'refused',
        rollbackTo: 1,
      });
      expect(answer.refusal).toMatch(/revision 1, older than revision 2.*--allow rollback/);
    }
    expect(await deployed()).toEqual({ revision: 2, version: '2' });
    const { status, answer } = await ask('PUT', `/flows/${FLOW_ID}?allow=rollback`, manifest('1'));
    expect({ status, action: answer.action }).toEqual({ status: 200, action: 'updated' });
    const items = (await ask('GET', `/flows/${FLOW_ID}/revisions`)).answer;
    expect(items.map(({ overrides }: { overrides: string[] }) => overrides)).toEqual([['rollback'], [], []]);
    expect((await start()).warnings.join('\n')).not.toContain('older');
    expect(await deployed()).toEqual({ revision: 3, version: '1' });
  });

  it('is served by a replica that starts again with it, and changes nothing for the others', async () => {
    await write(manifest('1'));
    const old = await start();
    await write(manifest('2'));
    await old.reload();
    expect(await deployed()).toEqual({ revision: 2, version: '2' });
    await write(manifest('1'));
    const { warnings } = await start();
    expect(others(warnings)).toEqual([
      `warning push (${FLOW_ID}): the manifest in the folder is revision 1, older than revision 2, which stays ` +
        'deployed. To go back, deploy it with `sluice deploy --to URL --allow rollback`, or change its version',
    ]);
    expect(await deployed()).toEqual({ revision: 2, version: '2' });
    expect(others((await start({ refusedDeploys: 'fail' })).warnings)).toHaveLength(1);
  });
});

describe('a manifest of the folder', () => {
  it('replaces what was deployed over the API if it equals no earlier revision', async () => {
    await write(manifest('1'));
    await start();
    await put(manifest('2'));
    await write(manifest('3'));
    await start();
    expect(await deployed()).toEqual({ revision: 3, version: '3' });
  });

  it('is deployed if its version changes, though it goes back to an earlier manifest otherwise', async () => {
    for (const version of ['1', '2', '1.1']) {
      await write(manifest(version));
      await start();
    }
    expect(await deployed()).toEqual({ revision: 3, version: '1.1' });
  });
});

describe('manifests that are deployed together', () => {
  const first = (slug: string, change = {}) => manifest('1', { slug, ...change });
  const other = (slug: string, change = {}) => manifest('1', { id: OTHER_ID, name: 'other', slug, ...change });
  const deliveredTo = async (slug: string) => {
    const { status, answer } = await ask('POST', `/webhook/${slug}`, { order: 7 });
    return status === 200 ? (await ask('GET', `/runs/${answer.runId}`)).answer.flowId : status;
  };

  it('may move a slug from one flow to the other, and swap slugs', async () => {
    await start();
    const actions = async (...manifests: object[]) => {
      const { status, answer } = await ask('PUT', '/flows', manifests);
      return [status, ...answer.outcomes.map(({ action }: { action: string }) => action)];
    };
    expect(await actions(first('a'), other('b'))).toEqual([200, 'created', 'created']);
    expect(await actions(first('c'), other('a'))).toEqual([200, 'updated', 'updated']);
    expect(await Promise.all(['a', 'b', 'c'].map(deliveredTo))).toEqual([OTHER_ID, 404, FLOW_ID]);
    const allowed = await ask('PUT', '/flows?allow=caution,rollback', [first('a'), other('c')]);
    expect(allowed.status).toBe(200);
    expect(await Promise.all(['a', 'c'].map(deliveredTo))).toEqual([FLOW_ID, OTHER_ID]);
  });

  it('leave both flows as they are if the one that has the slug is refused', async () => {
    await start();
    await ask('PUT', '/flows', [first('a'), other('b')]);
    const { runId } = (await ask('POST', `/flows/${FLOW_ID}/trigger`)).answer;
    const busy = first('c', { steps: { first: { type: 'NoOp' } } });
    for (const query of ['?dryRun=true', '']) {
      const { status, answer } = await ask('PUT', `/flows${query}`, [other('a'), busy]);
      expect(status).toBe(409);
      expect(answer.outcomes).toMatchObject([
        { flowId: OTHER_ID, action: 'refused', revision: 1, refusal: expect.stringContaining('"a" belongs to') },
        { flowId: FLOW_ID, action: 'refused', revision: 1, refusal: expect.stringContaining(runId) },
      ]);
    }
    expect(await Promise.all(['a', 'b', 'c'].map(deliveredTo))).toEqual([FLOW_ID, OTHER_ID, 404]);
  });

  it('change nothing where one of them is invalid, or two claim one slug or one id', async () => {
    await start();
    const invalid = { ...other('b'), steps: { a: { type: 'NoSuchType' } } };
    const refused = await ask('PUT', '/flows', [first('a'), invalid]);
    expect(refused).toMatchObject({ status: 400, answer: { reason: 'invalid_manifest' } });
    expect(refused.answer.issues).toContainEqual(
      expect.objectContaining({ severity: 'error', file: '[1]', path: 'steps.a.type', line: 1 }),
    );
    expect((await ask('PUT', '/flows', [first('a'), other('a')])).status).toBe(400);
    expect((await ask('PUT', '/flows', [first('a'), first('b')])).status).toBe(400);
    expect((await ask('PUT', '/flows', first('a'))).answer.message).toContain('expected an array');
    expect((await ask('GET', '/flows')).answer).toEqual([]);
  });
});
