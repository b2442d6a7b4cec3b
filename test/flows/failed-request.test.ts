import { describe, expect, it } from 'vitest';
import { runFlow } from '../../src/features/rehearsal/testing.ts';
import { serve } from './handlers/loopback-server.ts';

const SECRET = 'path-secret-7741';

interface Answer {
  readonly status?: number;
  readonly body: string;
  readonly type?: string;
}

/** The step error of a flow whose only step calls a server with this answer. */
async function errorOf(answer: Answer, inputs: Record<string, unknown> = {}, secret = '') {
  const { status = 422, body, type = 'application/json' } = answer;
  const { origin } = await serve((_request, response) => {
    response.writeHead(status, { 'content-type': type }).end(body);
  });
  const manifest = {
    id: '6f2b1c1e-1111-4222-8333-444455556666',
    name: 'orders',
    version: '1',
    triggers: { byHand: { type: 'manual' } },
    steps: { book: { type: 'HttpRequest', inputs: { url: `${origin}/orders/7?page=2`, method: 'POST', ...inputs } } },
  };
  const secrets = { 'env:SECRET': secret.replace('ORIGIN', origin) };
  const { steps } = await runFlow(manifest, { egressAllow: ['127.0.0.1'], secrets });
  return { error: steps.book?.error, origin, step: steps.book };
}

describe('a request that fails', () => {
  it.each<[string, Answer, string]>([
    ['a message', { body: '{"message":"unknown customer"}' }, '422 unknown customer'],
    ['an error', { body: '{"error":"unknown customer"}' }, '422 unknown customer'],
    ['an error within an error', { body: '{"error":{"code":7,"message":"unknown customer"}}' }, '422 unknown customer'],
    [
      'a list of errors',
      { body: '{"errors":[{"detail":"unknown customer"},{"detail":"no"}]}' },
      '422 unknown customer',
    ],
    [
      'problem details',
      { body: '{"type":"about:blank","title":"Bad","detail":"unknown customer"}' },
      '422 unknown customer',
    ],
    ['text', { body: 'unknown customer\n', type: 'text/plain' }, '422 unknown customer'],
    ['a page', { body: '<html>unknown customer</html>', type: 'text/html' }, '422 Unprocessable Content'],
    ['several lines', { body: 'unknown\ncustomer', type: 'text/plain' }, '422 Unprocessable Content'],
    ['nothing', { body: '' }, '422 Unprocessable Content'],
    ['a message that is no text', { body: '{"message":{"a":7}}' }, '422 Unprocessable Content'],
    ['a message that is too long', { body: JSON.stringify({ message: 'x'.repeat(201) }) }, '422 Unprocessable Content'],
    ['a name of every object', { body: '{"constructor":{"title":"x"}}' }, '422 Unprocessable Content'],
    ['a status that has no name', { status: 599, body: '' }, '599 is not an expected status'],
  ])('says first what the other side said, then what it called: %s', async (_name, answer, fact) => {
    const { error, origin } = await errorOf(answer);
    expect(error).toMatchObject({ code: 'unexpected_status', message: `${fact} · POST /orders/7`, host: origin });
  });

  it('names no path of a URL that is a secret', async () => {
    const { error, origin } = await errorOf({ body: '{"message":"no"}' }, { url: 'env:SECRET' }, `ORIGIN/a/${SECRET}`);
    expect(error).toMatchObject({ message: `422 no · POST ${new URL(origin).host}`, host: origin });
  });

  it('masks a secret that the other side repeats', async () => {
    const answer = { body: JSON.stringify({ message: `bad key ${SECRET}` }) };
    const { error, step } = await errorOf(answer, { headers: { 'x-key': 'env:SECRET' } }, SECRET);
    expect(error?.message).toBe('422 bad key *** · POST /orders/7');
    expect(JSON.stringify(step)).not.toContain(SECRET);
  });

  it('that gets no answer says so, and what it called', async () => {
    const inputs = { url: 'http://127.0.0.1:9/orders', method: 'PUT' };
    const { error } = await errorOf({ body: '' }, inputs);
    expect(error).toMatchObject({ code: 'network_error', host: 'http://127.0.0.1:9' });
    expect(error?.message).toMatch(/^ECONNREFUSED · PUT \/orders$/);
  });

  it('that was never made names no host', async () => {
    const { error } = await errorOf({ body: '' }, { url: `\${'no url'}` });
    expect(error).toMatchObject({ code: 'invalid_input' });
    expect(error).not.toHaveProperty('host');
  });
});
