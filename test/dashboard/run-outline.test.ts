import { beforeAll, describe, expect, it } from 'vitest';
import { NOW, useDashboard } from './fixture.ts';

const LOOPING_ID = '2d7a4d6c-52a1-4a0e-9c5f-1d6b7f0f3a55';
const SECRET = 'canary-in-the-inputs-of-a-step';
const LOOPING = {
  id: LOOPING_ID,
  name: 'looping',
  version: '1',
  triggers: { byHand: { type: 'manual' } },
  steps: {
    lines: {
      type: 'ForEach',
      forEach: ['a', 'b', 'c'],
      concurrencyLimit: 2,
      steps: {
        price: { type: 'NoOp' },
        pack: { type: 'NoOp', inputs: { secret: SECRET }, runAfter: { price: { when: 'loop.index > 0' } } },
      },
    },
    ship: { type: 'NoOp', runAfter: { lines: ['Succeeded'] } },
  },
};

const dashboard = useDashboard('all', {}, [LOOPING]);
let runId: string;
const get = async (path: string) => {
  const response = await dashboard.app.inject(`/flows/api/runs/${path}`);
  return { status: response.statusCode, body: response.json() };
};

beforeAll(async () => {
  const started = await dashboard.app.inject({ method: 'POST', url: `/flows/api/flows/${LOOPING_ID}/trigger` });
  runId = started.json().runId;
  const { store } = dashboard;
  const claim = async () => (await store.claimDue({ owner: 'me', now: NOW, leasedUntil: NOW + 1000, limit: 9 })).claims;
  const [loop] = await claim();
  if (loop === undefined) throw new Error('nothing is due');
  const about = { runId, at: NOW + 1, input: null };
  const items = ['a', 'b', 'c'];
  await store.advance({ ...about, ...loop, input: null, result: { kind: 'loop', items, concurrency: 2 } });
  const [first] = (await store.claimDue({ owner: 'me', now: NOW + 1, leasedUntil: NOW + 1000, limit: 1 })).claims;
  if (first === undefined) throw new Error('no child is due');
  const error = { code: 'broken', message: 'no price', retryable: false };
  await store.advance({ ...about, ...first, input: null, at: NOW + 9, result: { kind: 'failed', error } });
});

describe('the outline of a run', () => {
  it('has the graph of its revision without inputs, the steps outside of loops, and sums of the loops', async () => {
    const { status, body } = await get(`${runId}/outline`);
    expect(status).toBe(200);
    expect(JSON.stringify(body)).not.toContain(SECRET);
    expect(body).toMatchObject({
      run: { id: runId, flowName: 'looping', status: 'Running' },
      control: { runId, cancelRequested: false },
      graph: {
        lines: {
          type: 'ForEach',
          concurrencyLimit: 2,
          runAfter: {},
          steps: {
            price: { type: 'NoOp' },
            pack: { runAfter: { price: { statuses: ['Succeeded'], when: 'loop.index > 0' } } },
          },
        },
      },
      steps: [
        { stepKey: 'lines', status: 'Running', attempts: [{ attempt: 1, status: 'Running', completedAt: null }] },
        { stepKey: 'ship', stepType: 'NoOp', status: 'Pending', startedAt: null, attempts: [] },
      ],
      loops: [{ stepKey: 'lines', total: 3, failed: 1 }],
    });
    expect(body.children).toContainEqual({ path: 'lines.price', status: 'Failed', count: 1 });
  });
});

describe('what started a run', () => {
  it('is shown without its steps', async () => {
    const { body } = await get(`${runId}/trigger`);
    expect(body).toEqual({ triggerBody: null, triggerHeaders: expect.any(Object) });
  });
});

describe('the events of a run', () => {
  it('come all or only the newest', async () => {
    const sequences = async (query: string) => {
      const { body } = await get(`${runId}/events${query}`);
      return (body as { sequence: number }[]).map(({ sequence }) => sequence);
    };
    const all = await sequences('');
    expect(all.length).toBeGreaterThan(3);
    expect(await sequences('?take=2')).toEqual(all.slice(-2));
    expect(await sequences('?take=400')).toEqual(all);
  });
});

describe('iterations of a loop', () => {
  it('come a page at a time, each with all of its steps', async () => {
    const { body } = await get(`${runId}/iterations?loop=lines&skip=0&take=1`);
    expect(body).toMatchObject({
      items: [
        {
          index: 0,
          steps: [
            { stepKey: 'lines.0.price', status: 'Failed', error: { message: 'no price' } },
            { stepKey: 'lines.0.pack', status: 'Skipped' },
          ],
        },
      ],
      skip: 0,
      take: 1,
    });
    const { body: second } = await get(`${runId}/iterations?loop=lines&skip=1&take=1`);
    expect(second.items).toMatchObject([{ index: 1, steps: [{ stepKey: 'lines.1.price', status: 'Pending' }, {}] }]);
  });

  it('can be asked for by the status of their steps', async () => {
    const { body } = await get(`${runId}/iterations?loop=lines&status=failed`);
    expect(body).toMatchObject({ total: 1, items: [{ index: 0 }] });
    expect((await get(`${runId}/iterations?loop=lines&status=Succeeded`)).body).toMatchObject({ total: 0, items: [] });
  });

  it.each([
    ['', 400, 'loop: is missing; expected the key of a loop'],
    ['?loop=ship', 404, 'The run has no loop "ship"'],
    ['?loop=lines&status=odd', 400, 'status: "odd" is not accepted; expected one of Pending'],
  ])('%s is refused', async (query, status, message) => {
    const answer = await get(`${runId}/iterations${query}`);
    expect(answer.status).toBe(status);
    expect(answer.body.message).toContain(message);
  });
});

describe('one step of a run', () => {
  it('has its values and attempts', async () => {
    const { body } = await get(`${runId}/steps/lines.0.price`);
    expect(body).toMatchObject({ stepKey: 'lines.0.price', status: 'Failed', attempts: [{ status: 'Failed' }] });
  });

  it('is pending while it has not been reached, in a loop too', async () => {
    expect((await get(`${runId}/steps/ship`)).body).toMatchObject({ status: 'Pending', attemptCount: 0 });
    expect((await get(`${runId}/steps/lines.2.pack`)).body).toMatchObject({ status: 'Pending', stepType: 'NoOp' });
  });

  it('that the graph does not have is a 404', async () => {
    expect(await get(`${runId}/steps/lines.0.none`)).toMatchObject({ status: 404, body: { reason: 'unknown_step' } });
  });
});
