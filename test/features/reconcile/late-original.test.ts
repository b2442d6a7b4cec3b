import { expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../e2e/service.ts';
import { fakeGithub } from './github.ts';
import { manifestOf, reconcilingFolder, SECRET, startReconciling } from './reconciling.ts';

/** More than attention ignores. */
const LOST = 25;

it('is refused, and neither attention nor the books take it for a replay', async () => {
  const github = await fakeGithub({ secret: SECRET, target: undefined });
  onTestFinished(() => github.close());
  const inputs = { webhookNonceHeader: 'X-GitHub-Delivery' };
  const { folder, remove } = await reconcilingFolder(manifestOf(github.baseUrl, { inputs }));
  const service = await startReconciling(folder);
  onTestFinished(async () => {
    await service.close();
    await remove();
  });
  const kinds = async () => (await service.get<{ kind: string }[]>('/flows/api/attention')).map(({ kind }) => kind);
  const books = async () => ({ ...(await service.get<object>('/flows/api/books')), since: null, until: null });
  const lost = [];
  for (let n = 0; n < LOST; n += 1) lost.push(await github.deliver({ n }));
  await eventually(service.runs, ({ length }) => length === LOST);
  const before = await books();
  github.target = service.hook;
  for (const sent of lost) expect(await github.redeliver(sent)).toBe(409);
  const [first] = (await service.deliveries()).filter(({ reason }) => reason !== null);
  expect(first).toMatchObject({ reason: 'nonce_replayed', outcome: 'duplicate', runId: expect.any(String) });
  expect(first?.detail).toContain('fetched');
  expect(await kinds()).not.toContain('refusals_rising');
  expect(await books()).toEqual(before);
  expect(await service.runs()).toHaveLength(LOST);
});

it('is a replay where the first delivery arrived by itself', async () => {
  const github = await fakeGithub({ secret: SECRET, target: undefined });
  onTestFinished(() => github.close());
  const inputs = { webhookNonceHeader: 'X-GitHub-Delivery' };
  const { folder, remove } = await reconcilingFolder(manifestOf(github.baseUrl, { inputs }));
  const service = await startReconciling(folder);
  onTestFinished(async () => {
    await service.close();
    await remove();
  });
  github.target = service.hook;
  const sent = await github.deliver({ n: 1 });
  expect(await github.redeliver(sent)).toBe(409);
  const [replay] = await service.deliveries();
  expect(replay).toMatchObject({ reason: 'nonce_replayed', outcome: null, runId: null });
});
