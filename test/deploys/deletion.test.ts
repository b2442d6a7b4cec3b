import { randomUUID } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import type { SluiceApp } from '../../src/app.ts';
import { ALERT_FLOW_ID } from '../../src/model/manifest.ts';
import { eventually, FLOW_ID, GITHUB_SECRET, githubManifest } from '../e2e/service.ts';
import { push, useFolderApp } from '../folder-app.ts';

const OTHER_ID = '11111111-6c1d-4f0e-9a51-3f0f8d1c2a10';
const wait = { first: { type: 'WaitForSignal', inputs: { signalName: 'go' } } };
const quick = { first: { type: 'NoOp' } };
const url = `/flows/${FLOW_ID}`;

const workspace = useFolderApp();
const { ask } = workspace;
let app: SluiceApp;
async function restart(): Promise<readonly string[]> {
  app = await workspace.start({}, { environment: { SECRET_GITHUB: GITHUB_SECRET } });
  return app.warnings;
}
beforeEach(async () => void (await restart()));

const put = (
  manifest: { readonly id: string; readonly name?: string; readonly [field: string]: unknown },
  query = '',
) => ask('PUT', `/flows/${manifest.id}${query}`, manifest);
const remove = (id = FLOW_ID) => ask('DELETE', `/flows/${id}`);

const deliver = (id: string, slug = 'push') => push(app, { id, slug });

const cron = { nightly: { type: 'cron', inputs: { cronExpression: '0 3 * * *' } } };
interface Pushing {
  readonly id: string;
  readonly triggers: object;
}

function manifest({ version = '1', inputs = {} }: { version?: string; inputs?: object } = {}) {
  const given = githubManifest({ steps: wait, inputs: { webhookHmacKey: 'env:SECRET_GITHUB', ...inputs } }) as Pushing;
  return { ...given, version, triggers: { ...given.triggers, ...cron } };
}

describe('a flow that is deleted', () => {
  it('is unknown, its schedules end, and what is stored of it stays readable while its run ends', async () => {
    await put(manifest());
    const { runId } = (await deliver('first')).answer;
    const { answer: schedules } = await ask('GET', '/schedules');
    expect(schedules).toMatchObject([{ jobId: `flow-${FLOW_ID}-nightly` }]);
    expect(await remove()).toMatchObject({ status: 200, answer: { success: true, runsInFlight: 1 } });
    for (const path of [url, `${url}/drain`, `${url}/mermaid`]) {
      expect(await ask('GET', path)).toMatchObject({ status: 404, answer: { reason: 'unknown_flow' } });
    }
    for (const verb of ['enable', 'disable', 'drain', 'trigger']) {
      expect(await ask('POST', `${url}/${verb}`)).toMatchObject({ status: 404, answer: { reason: 'unknown_flow' } });
    }
    expect(await remove()).toMatchObject({ status: 404, answer: { reason: 'unknown_flow' } });
    for (const name of ['push', FLOW_ID]) {
      expect(await deliver(randomUUID(), name)).toMatchObject({ status: 404, answer: { reason: 'unknown_flow' } });
    }
    expect((await ask('GET', '/flows')).answer).toEqual([]);
    expect((await ask('GET', '/schedules')).answer).toEqual([]);
    expect((await ask('GET', `/runs/${runId}`)).answer).toMatchObject({ status: 'Running', flowId: FLOW_ID });
    expect((await ask('POST', `/runs/${runId}/rerun`)).status).toBe(404);
    await ask('POST', `/runs/${runId}/signals/go`, {});
    await eventually(
      () => ask('GET', `/runs/${runId}`),
      ({ answer }) => answer.status === 'Succeeded',
    );
    expect((await ask('GET', `${url}/revisions`)).answer).toMatchObject([{ revision: 1, runs: 1 }]);
    expect((await ask('GET', `${url}/revisions/1`)).status).toBe(200);
    expect((await ask('GET', `/webhooks/recent?flowId=${FLOW_ID}`)).answer).toMatchObject([{ runId }]);
  });

  it('stays deleted over a restart, and its runs go on there', async () => {
    await put(manifest());
    const { runId } = (await deliver('first')).answer;
    await remove();
    expect(await restart()).toEqual([]);
    expect((await ask('GET', '/flows')).answer).toEqual([]);
    await ask('POST', `/runs/${runId}/signals/go`, {});
    await eventually(
      () => ask('GET', `/runs/${runId}`),
      ({ answer }) => answer.status === 'Succeeded',
    );
  });

  it('is unknown too where its manifest could not be read, once the file is gone', async () => {
    const file = join(workspace.folder, 'manifests', 'push.json');
    await put(manifest());
    await writeFile(file, JSON.stringify(manifest({ version: '2', inputs: { webhookHmacKey: 'env:SECRET_MISSING' } })));
    expect((await ask('POST', '/flows/reload')).answer.unreadable).toMatchObject([{ flowId: FLOW_ID }]);
    await rm(file);
    expect((await remove()).status).toBe(200);
    expect(await deliver('first')).toMatchObject({ status: 404, answer: { reason: 'unknown_flow' } });
    const { answer: attention } = await ask('GET', '/attention');
    expect(attention.map(({ kind }: { kind: string }) => kind)).not.toContain('manifest_unreadable');
  });

  it('is an activity, with its reason', async () => {
    await put(manifest());
    await ask('DELETE', `${url}?reason=${encodeURIComponent('moved to é')}`);
    const { answer } = await ask('GET', `/activity?target=${FLOW_ID}&action=deleteFlow`);
    expect(answer).toMatchObject([{ action: 'deleteFlow', reason: 'moved to é', statusCode: 200, details: {} }]);
    expect(answer[0].details).toEqual({});
  });

  it('comes back with its next revision, and accepts nothing again', async () => {
    await put(manifest());
    await deliver('first');
    await remove();
    const dry = await put(manifest(), '?dryRun=true');
    expect(dry).toMatchObject({ status: 200, answer: { action: 'created', revision: 2, access: 'same' } });
    expect((await put(manifest())).answer).toMatchObject({ action: 'created', revision: 2, findings: [] });
    expect(await deliver('first')).toMatchObject({ status: 409, answer: { reason: 'nonce_replayed' } });
    expect(await deliver('second')).toMatchObject({ status: 200 });
    expect((await ask('GET', '/schedules')).answer).toMatchObject([
      { paused: false, nextExecution: expect.any(String) },
    ]);
  });

  it('comes back only with a word if it then lets more in than before, or as an earlier revision', async () => {
    await put(manifest());
    await put(manifest({ version: '2' }));
    await remove();
    const open = manifest({ version: '3', inputs: { webhookEnforcementMode: 'Off' } });
    const refused = await put(open);
    expect(refused).toMatchObject({ status: 409, answer: { action: 'refused', access: 'wider', revision: null } });
    expect((await ask('GET', '/flows')).answer).toEqual([]);
    const older = await put(manifest());
    expect(older).toMatchObject({ status: 409, answer: { rollbackTo: 1 } });
    expect(older.answer.refusal).toContain('older than revision 2, which was deployed last');
    expect(await put(open, '?allow=access')).toMatchObject({ status: 200, answer: { revision: 3 } });
  });

  it('comes back when its newest revision is restored', async () => {
    await put(manifest());
    await remove();
    expect(await ask('POST', `${url}/revisions/1/restore`)).toMatchObject({ status: 200, answer: { revision: 2 } });
    expect(await deliver('first')).toMatchObject({ status: 200 });
  });

  it('leaves its slug to another flow, where what it accepted is known', async () => {
    await put(manifest());
    await deliver('first');
    expect(await put({ ...manifest(), id: OTHER_ID })).toMatchObject({ status: 409 });
    await remove();
    expect(await put({ ...manifest(), id: OTHER_ID, name: 'Another' })).toMatchObject({ status: 200 });
    expect(await deliver('first')).toMatchObject({ status: 409, answer: { reason: 'nonce_replayed' } });
    expect(await deliver('second')).toMatchObject({ status: 200 });
    expect(await put(manifest())).toMatchObject({
      status: 409,
      answer: { refusal: expect.stringContaining('Another') },
    });
  });
});

describe('a deletion is refused', () => {
  it('while the folder has the flow, and while that cannot be told', async () => {
    await workspace.writeManifest('push.json', manifest());
    await app.reload();
    const refused = await remove();
    expect(refused).toMatchObject({ status: 409, answer: { reason: 'flow_in_folder' } });
    expect(refused.answer.message).toContain('push.json');
    await rm(join(workspace.folder, 'manifests', 'push.json'));
    await writeFile(join(workspace.folder, 'manifests', 'broken.json'), '{"id":');
    const unread = await remove();
    expect(unread).toMatchObject({ status: 409, answer: { reason: 'folder_unreadable' } });
    expect(unread.answer.message).toContain('broken.json');
    expect((await ask('GET', url)).status).toBe(200);
  });

  it('while other flows start it, with their names', async () => {
    const runs = { go: { type: 'RunFlow', inputs: { flow: FLOW_ID } } };
    await put(manifest());
    await put({ id: OTHER_ID, name: 'Caller', version: '1', steps: runs });
    await put({ id: randomUUID(), name: 'Failing', version: '1', steps: quick, onFailure: FLOW_ID });
    const refused = await remove();
    expect(refused).toMatchObject({ status: 409, answer: { reason: 'flow_in_use' } });
    for (const name of ['Caller', 'Failing']) expect(refused.answer.message).toContain(name);
  });

  it('of the flow that tells of alerts', async () => {
    expect(await remove(ALERT_FLOW_ID)).toMatchObject({ status: 403, answer: { reason: 'built_in_flow' } });
  });
});

describe('a manifest of the folder', () => {
  it('that is a revision of a deleted flow does not bring it back, another does', async () => {
    await workspace.writeManifest('push.json', manifest());
    await app.reload();
    await workspace.writeManifest('push.json', manifest({ version: '2' }));
    await app.reload();
    await rm(join(workspace.folder, 'manifests', 'push.json'));
    await app.reload();
    expect(await remove()).toMatchObject({ status: 200 });
    for (const version of ['2', '1']) {
      await workspace.writeManifest('push.json', manifest({ version }));
      const warnings = (await restart()).join('\n');
      expect(warnings).toContain(`its revision ${version === '2' ? 2 : 1}, which is not deployed again`);
      expect(warnings.includes('--allow rollback')).toBe(version !== '2');
      expect((await ask('GET', '/flows')).answer).toEqual([]);
      expect((await ask('POST', '/flows/reload')).answer).toMatchObject({
        outcomes: [{ action: 'unchanged', revision: null }],
      });
    }
    await workspace.writeManifest('push.json', manifest({ version: '3' }));
    await restart();
    expect((await ask('GET', url)).answer).toMatchObject({ revision: 3, version: '3' });
  });
});
