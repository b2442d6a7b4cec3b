import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../e2e/service.ts';
import { type FakeGithub, fakeGithub } from './github.ts';
import { manifestOf, reconcilingFolder, SECRET, startReconciling } from './reconciling.ts';

let github: FakeGithub;
const ends: (() => Promise<unknown>)[] = [];
beforeEach(async () => {
  github = await fakeGithub({ secret: SECRET, target: undefined });
  ends.push(() => github.close());
});
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** A service that has looked at the log once, so that whatever is sent from now on concerns it. */
async function started(given: Parameters<typeof manifestOf>[1] = {}) {
  const place = await reconcilingFolder(manifestOf(github.baseUrl, given));
  ends.push(place.remove);
  const service = await startReconciling(place.folder);
  ends.push(service.close);
  await service.looks(github, 1);
  return { ...service, ...place };
}

describe('a delivery that GitHub sent in vain', () => {
  it('is fetched, verified by its own signature, and starts a run', async () => {
    const service = await started();
    const payload = { zen: 'Ünï <b> & 1', amount: 1.5, list: [], nested: { n: null } };
    const { guid } = await github.deliver(payload);
    const [run] = await eventually(service.runs, ({ length }) => length > 0);
    const [record] = await service.deliveries();
    expect(record).toMatchObject({ runId: run?.id, reason: null, detail: 'reconciled from github, verified' });
    expect(record?.headers).toMatchObject({ 'x-github-delivery': guid, 'x-github-event': 'push' });
    await service.looks(github);
    expect(await service.runs()).toHaveLength(1);
  });

  it.each([
    ['409 by its nonce', { webhookNonceHeader: 'X-GitHub-Delivery' }, 409],
    ['200 by its event', {}, 200],
  ])('gets %s when it comes late, and nothing is fetched of what came', async (_, inputs, status) => {
    const service = await started({ inputs });
    const lost = await github.deliver({ n: 1 });
    await eventually(service.runs, ({ length }) => length > 0);
    github.target = service.hook;
    expect(await github.redeliver(lost)).toBe(status);
    await github.deliver({ n: 2 });
    const before = github.asked.length;
    await service.looks(github);
    expect(await service.runs()).toHaveLength(2);
    expect(github.asked.slice(before).filter((each) => /deliveries\/\d/.test(each))).toEqual([]);
  });
});
