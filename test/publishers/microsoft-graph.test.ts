import { describe, expect, it } from 'vitest';
import { createSchemeRegistry } from '../../src/webhooks/schemes/resolve.ts';
import { deliveryOf, judge } from '../webhooks/schemes/fixtures.ts';
import { startGateway } from './gateway.ts';

const STATE = 'a client state of more than sixteen bytes';
const OLD = 'the client state that was there before it';
const item = (clientState: unknown, others: object = {}) => ({ changeType: 'created', clientState, ...others });
const listOf = (...states: unknown[]) => JSON.stringify({ value: states.map((state) => item(state)) });

async function outcome(body: string, contentType = 'application/json'): Promise<string> {
  const delivery = deliveryOf({ body, headers: { 'content-type': contentType } });
  const inputs = { webhookSignatureScheme: 'MicrosoftGraph' };
  const verdict = await judge({ inputs, key: STATE, previousKey: OLD }, delivery);
  if (!verdict.passed) return verdict.reason;
  return verdict.evidence?.usedPreviousKey === true ? 'previous' : 'current';
}

describe('a list whose items each bring the token', () => {
  it.each<[string, string, string]>([
    ['passes with one', listOf(STATE), 'current'],
    ['passes with many', listOf(...Array.from({ length: 200 }, () => STATE)), 'current'],
    ['passes by the key before', listOf(OLD), 'previous'],
    ['passes while a key is changed', listOf(STATE, OLD, STATE), 'previous'],
    ['is refused for one wrong item at its end', listOf(STATE, STATE, 'another'), 'signature_mismatch'],
    ['is refused for one wrong item at its begin', listOf('another', STATE), 'signature_mismatch'],
    ['is refused for an item without it', JSON.stringify({ value: [item(STATE), {}] }), 'signature_missing'],
    ['is refused for an item that has none', listOf(STATE, null), 'signature_missing'],
    ['is refused for an item that is a list', listOf(STATE, [STATE]), 'signature_missing'],
    ['is refused for an item that is no object', JSON.stringify({ value: [item(STATE), STATE] }), 'signature_missing'],
    ['is refused for an empty text', listOf(STATE, ''), 'signature_mismatch'],
    ['is refused where it is empty', '{"value":[]}', 'signature_missing'],
    ['is refused where there is none', '{}', 'signature_missing'],
    ['is refused where it is an object', JSON.stringify({ value: item(STATE) }), 'signature_missing'],
    ['is refused where it has a member named so', JSON.stringify({ value: { '*': item(STATE) } }), 'signature_missing'],
    ['is refused where it is within a list', JSON.stringify([{ value: [item(STATE)] }]), 'signature_missing'],
    ['is refused for the state of the whole', JSON.stringify({ clientState: STATE, value: [{}] }), 'signature_missing'],
    [
      'is refused with more texts than keys',
      listOf(...Array.from({ length: 40 }, (_, at) => at)),
      'signature_malformed',
    ],
    [
      'is read as JavaScript reads a member twice',
      '{"value":[{"clientState":"x"}],"value":[{"clientState":"y"}]}',
      'signature_mismatch',
    ],
    ['is refused as no JSON', `${listOf(STATE)}x`, 'signature_missing'],
  ])('%s', async (_rule, body, expected) => {
    expect(await outcome(body)).toBe(expected);
  });

  it('is no form', async () => {
    expect(await outcome(`value.*.clientState=${STATE}`, 'application/x-www-form-urlencoded')).toBe(
      'signature_missing',
    );
  });

  it('is read for other schemes as before: a list is no signature', async () => {
    const scheme = {
      name: 'InBody',
      headers: [],
      signatureFields: [{ path: ['signatures'] }],
      algorithm: 'token',
      encoding: 'hexLower',
      signs: [],
      source: 'a test, 2026-11',
    } as const;
    expect(() => createSchemeRegistry({ specs: [scheme] })).not.toThrow();
    const verdict = await judge(
      { inputs: { webhookSignatureScheme: 'InBody' }, key: STATE, settings: await settingsWith(scheme) },
      deliveryOf({ body: JSON.stringify({ signatures: [STATE] }) }),
    );
    expect(verdict).toMatchObject({ passed: false, reason: 'signature_missing' });
  });
});

async function settingsWith(scheme: object) {
  const { settingsOf } = await import('../webhooks/schemes/fixtures.ts');
  return { ...settingsOf(), schemes: createSchemeRegistry({ specs: [scheme as never] }) };
}

async function graph(mode: 'Enforce' | 'Audit' = 'Enforce') {
  const inputs = {
    webhookSignatureScheme: 'MicrosoftGraph',
    webhookHmacKey: STATE,
    webhookReplayToleranceSeconds: 300,
    webhookDuplicateResponse: 'acknowledge',
    webhookEnforcementMode: mode,
  } as const;
  return startGateway({ triggers: { graph: inputs } });
}

describe('the service', () => {
  it('echoes the token of a new subscription, and nothing that a browser could run', async () => {
    const gateway = await graph();
    const ask = (token: string) =>
      gateway.deliver('graph', { query: `?validationToken=${encodeURIComponent(token)}`, body: '' });
    const token = 'Validation: Testing client application reachability for subscription Request-Id: 522a8e7e-096a';
    const answer = await ask(token);
    expect([answer.status, answer.text, answer.headers['content-type']]).toEqual([200, token, 'text/plain']);
    expect(answer.headers['x-content-type-options']).toBe('nosniff');
    for (const text of ['<script>', '<b>', '', 'a\r\nb', 'a'.repeat(2000)]) {
      const refused = await ask(text);
      expect([refused.status, text !== '' && refused.text.includes(text)]).toEqual([401, false]);
    }
    expect(await gateway.countRuns()).toBe(0);
  });

  it('starts no run for a list behind such a token, whoever sends it', async () => {
    const gateway = await graph();
    const answer = await gateway.deliver('graph', { query: '?validationToken=abc', body: listOf(STATE) });
    expect([answer.status, answer.text, await gateway.countRuns()]).toEqual([200, 'abc', 0]);
  });

  it.each([STATE, `a " \\ / state with é, and more than that`])('keeps the token nowhere: %s', async (state) => {
    const gateway = await graph('Audit');
    const body = `{"value":[{"cli\\u0065ntState":${JSON.stringify(state)},"n":12345678901234567890},{"clientState" : ${JSON.stringify(state)}}]}`;
    const accepted = await gateway.deliver('graph', { body, headers: { 'content-type': 'application/json' } });
    expect(accepted.status).toBe(200);
    const { runId, deliveryId } = JSON.parse(accepted.text);
    const trigger = await gateway.get(`/flows/api/runs/${runId}/trigger`);
    expect(trigger).toContain('[redacted]');
    expect(trigger).toContain('12345678901234567890');
    const inJson = JSON.stringify(state).slice(1, -1);
    const paths = [`runs/${runId}`, `webhooks/${deliveryId}`, `webhooks/${deliveryId}/body`, 'webhooks/recent'];
    for (const path of [`runs/${runId}/trigger`, ...paths]) {
      const text = await gateway.get(`/flows/api/${path}`);
      expect(text.includes(inJson) || text.includes(state), path).toBe(false);
    }
  });

  it('keeps no token of what it refuses, however it is written', async () => {
    const gateway = await graph();
    for (const [body, right] of [
      [listOf(STATE, 'another'), true],
      [`${listOf(STATE)}x`, true],
      [`{"clientState":"${STATE}`, true],
      [`${'['.repeat(100_000)}{"clientState":"${STATE}"}`, true],
    ] as const) {
      const answer = await gateway.deliver('graph', { body });
      expect(answer.status).toBe(401);
      const { id } = await gateway.latestDelivery();
      const stored = await gateway.get(`/flows/api/webhooks/${id}/body`);
      expect(stored.includes(STATE)).toBe(!right);
    }
  });

  it.each([
    ['the list', listOf(STATE), `{"value":[{"changeType":"created","clientState":"[redacted]"}]}`],
    ['a token that is the body', 'e30.eyJhIjoxfQ.c2lnbmF0dXJl', '{"a":1}'],
    ['any other body', '{"value":[{"state":1}]}', '{"value":[{"state":1}]}'],
  ])('keeps no token of %s at a slug that no trigger has', async (_what, body, kept) => {
    const gateway = await graph();
    expect((await gateway.deliver('grpah', { body })).status).toBe(404);
    const { id } = await gateway.latestDelivery();
    expect(await gateway.get(`/flows/api/webhooks/${id}/body`)).toBe(kept);
  });

  it('knows a second delivery of the same list', async () => {
    const gateway = await graph();
    const first = await gateway.deliver('graph', { body: listOf(STATE) });
    const second = await gateway.deliver('graph', { body: listOf(STATE) });
    expect(JSON.parse(second.text)).toMatchObject({ runId: JSON.parse(first.text).runId, duplicate: true });
    expect(await gateway.countRuns()).toBe(1);
  });
});
