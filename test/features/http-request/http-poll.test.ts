import { describe, expect, it } from 'vitest';
import { createHttpRequestHandler } from '../../../src/features/http-request/http-request.ts';
import type { Json } from '../../../src/model/json.ts';
import { call } from '../../flows/handlers/call.ts';
import { serve } from '../../flows/handlers/loopback-server.ts';

const handler = createHttpRequestHandler({ egressAllow: ['127.0.0.0/8'] });

/** Gives these answers in order; the last one repeats. A number is a status without a body. */
async function polled(inputs: object, answers: (object | number)[]) {
  const { origin } = await serve((_request, response) => {
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    if (typeof answer === 'number') response.writeHead(answer).end();
    else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  });
  const looks: number[] = [];
  const noted: unknown[] = [];
  let now = 0;
  let state: Json | undefined;
  for (;;) {
    const resumed = state === undefined ? null : { state, signal: null };
    const result = await call(handler, { url: origin, pollEnabled: true, ...inputs }, { now: () => now, resumed });
    looks.push(now);
    if (result.kind !== 'waiting') return { result, looks, noted };
    noted.push(Reflect.get(Object(result.state), 'lastPoll'));
    state = result.state ?? null;
    now = result.until ?? 0;
  }
}

describe('a poll', () => {
  it.each([
    ['a condition', { pollCondition: 'response.body.state == "done"' }],
    ['a path', { pollConditionPath: 'state', pollConditionEquals: 'done' }],
    ['a JSON path', { pollConditionPath: '$.state', pollConditionEquals: 'done' }],
  ])('asks again until the answer is the one that %s names', async (_what, inputs) => {
    const { result, looks } = await polled({ pollIntervalSeconds: 5, ...inputs }, [
      { state: 'busy' },
      {},
      503,
      { state: 'done' },
    ]);
    expect(result).toMatchObject({ kind: 'succeeded', output: { status: 200, body: { state: 'done' } } });
    expect(looks).toEqual([0, 5000, 10_000, 15_000]);
  });

  it('without a condition waits for an expected status', async () => {
    const { result, looks } = await polled({ expectedStatuses: 200 }, [404, 202, {}]);
    expect(result).toMatchObject({ kind: 'succeeded' });
    expect(looks).toHaveLength(3);
  });

  it('notes what the last answer was and why it asks again', async () => {
    const inputs = { pollIntervalSeconds: 5, pollMinAttempts: 4, pollCondition: 'response.body.done' };
    const { noted } = await polled(inputs, [{ done: false }, 503, { done: true }]);
    expect(noted).toEqual([
      { at: 0, status: 200, why: 'the condition was false' },
      { at: 5000, status: 503, why: expect.stringContaining('503') },
      { at: 10_000, status: 200, why: 'at least 4 requests are made' },
    ]);
  });

  it('takes no answer before so many requests', async () => {
    const { looks } = await polled({ pollMinAttempts: 3 }, [{}]);
    expect(looks).toHaveLength(3);
  });

  it('gives up when its time is up, with the last answer', async () => {
    const inputs = { pollIntervalSeconds: 10, pollTimeoutSeconds: 25, pollCondition: 'response.body.done' };
    const { result, looks } = await polled(inputs, [{ done: false }]);
    expect(looks).toEqual([0, 10_000, 20_000]);
    expect(result).toMatchObject({
      kind: 'failed',
      code: 'poll_timeout',
      retryable: true,
      message: 'no such answer within 25 s and 3 requests; the condition was false',
      output: { body: { done: false } },
    });
  });

  it('ends with a refusal that asking again would not change', async () => {
    const { result, looks } = await polled({ pollCondition: 'response.body.done' }, [401]);
    expect(result).toMatchObject({ kind: 'failed', code: 'unexpected_status' });
    expect(looks).toHaveLength(1);
  });

  it.each([
    ['a condition that does not parse', { pollEnabled: true, pollCondition: 'response.' }],
    ['a condition over something else', { pollEnabled: true, pollCondition: 'trigger.body.a' }],
    ['a condition that is no boolean', { pollEnabled: true, pollCondition: '1 + 1' }],
    ['a path without a value', { pollEnabled: true, pollConditionPath: 'a' }],
    ['a condition that is not asked for', { pollCondition: 'true' }],
    ['two conditions', { pollEnabled: true, pollCondition: 'true', pollConditionPath: 'a', pollConditionEquals: 1 }],
  ])('with %s is refused', (_what, inputs) => {
    expect(handler.inputs.safeParse({ url: 'http://127.0.0.1', ...inputs }).success).toBe(false);
  });
});

it('forwards the headers of the delivery that it names, and none that was redacted', async () => {
  const { origin, received } = await serve((_request, response) => response.end());
  const headers = { 'x-request-id': '7', authorization: '[redacted]', 'x-other': 'no' };
  const trigger = async () => ({ key: 'hook', body: Buffer.alloc(0), contentType: null, headers });
  const inputs = { url: origin, forwardHeaders: ['X-Request-Id', 'authorization', 'x-absent'] };
  expect(await call(handler, inputs, { trigger })).toMatchObject({ kind: 'succeeded' });
  expect(received[0]?.headers['x-request-id']).toBe('7');
  expect(received[0]?.headers).not.toHaveProperty('authorization');
  expect(received[0]?.headers).not.toHaveProperty('x-other');
  expect(handler.inputs.safeParse({ url: origin, forwardHeaders: ['host'] }).success).toBe(false);
});
