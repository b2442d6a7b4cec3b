import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Reason } from '../../src/model/delivery.ts';
import type { EnforcementMode } from '../../src/model/manifest.ts';
import type { Evidence, Gate, Verdict } from '../../src/webhooks/gate.ts';
import { dryRunGates, runGates } from '../../src/webhooks/pipeline.ts';
import { sampleDelivery } from './samples.ts';

const MODES: EnforcementMode[] = ['Off', 'Audit', 'Enforce'];

function recordingGates(verdicts: Verdict[]): { gates: Gate[]; asked: string[]; seen: Evidence[] } {
  const asked: string[] = [];
  const seen: Evidence[] = [];
  const gates = verdicts.map((verdict, index): Gate => {
    const name = `gate${index}`;
    return {
      name,
      check(_delivery, evidence) {
        asked.push(name);
        seen.push(evidence);
        return index % 2 === 0 ? verdict : Promise.resolve(verdict);
      },
    };
  });
  return { gates, asked, seen };
}

const pass: Verdict = { passed: true };
const fail = (reason: Reason, detail?: string): Verdict => ({
  passed: false,
  reason,
  ...(detail === undefined ? {} : { detail }),
});

describe('runGates', () => {
  it.each([
    { mode: 'Off', refusal: null, asked: ['gate0', 'gate1', 'gate2'], violations: ['ip_denied', 'signature_missing'] },
    {
      mode: 'Audit',
      refusal: null,
      asked: ['gate0', 'gate1', 'gate2'],
      violations: ['ip_denied', 'signature_missing'],
    },
    { mode: 'Enforce', refusal: 'ip_denied', asked: ['gate0'], violations: ['ip_denied'] },
  ] as const)('under $mode asks $asked and refuses with $refusal', async ({ mode, refusal, asked, violations }) => {
    const run = recordingGates([fail('ip_denied'), pass, fail('signature_missing')]);
    const judgement = await runGates(run.gates, sampleDelivery(), mode);
    expect(run.asked).toEqual(asked);
    expect(judgement).toMatchObject({ refusal, reason: 'ip_denied', violations });
  });

  it.each(MODES)('finds nothing wrong under %s where every gate passes, and where there is none', async (mode) => {
    const clean = { refusal: null, reason: null, violations: [], detail: null };
    expect(await runGates([], sampleDelivery(), mode)).toEqual({ ...clean, evidence: {}, gateResults: [] });
    expect(await runGates(recordingGates([pass, pass]).gates, sampleDelivery(), mode)).toMatchObject({
      ...clean,
      evidence: {},
      gateResults: [{ outcome: 'passed' }, { outcome: 'passed' }],
    });
  });

  it('keeps what a gate writes into its evidence from every other delivery', async () => {
    const own: Evidence = { scheme: 'Own' };
    const careless = (name: string): Gate => ({
      name,
      check(_delivery, evidence) {
        const isClean = !('isVerified' in evidence);
        Object.assign(evidence, { isVerified: true });
        return isClean ? { passed: true, evidence: own } : fail('signature_mismatch');
      },
    });
    const [first, second] = await Promise.all(
      ['first', 'second'].map((name) => runGates([careless(name)], sampleDelivery(), 'Enforce')),
    );
    expect([first?.refusal, second?.refusal]).toEqual([null, null]);
    await runGates(
      [{ name: 'finds', check: () => ({ passed: true, evidence: own }) }, careless('writes')],
      sampleDelivery(),
      'Enforce',
    );
    expect(own).toEqual({ scheme: 'Own' });
  });

  it('tells what every gate did and found, those that were not asked too', async () => {
    const evidence: Evidence = {
      replaySkewMs: 5,
      nonce: { header: 'x-id', value: 'n', digest: 'd', lifeMs: 60_000 },
      signedTimestamp: { text: '9'.repeat(700), ms: Number.NaN },
      facts: { gate1: { seen: true }, other: { seen: false } },
    };
    const run = recordingGates([pass, { ...fail('ip_denied', 'from afar'), evidence }, pass]);
    const { gateResults } = await runGates(run.gates, sampleDelivery(), 'Enforce');
    const silent = { reason: null, detail: null, facts: {} };
    expect(gateResults).toEqual([
      { gate: 'gate0', outcome: 'passed', ...silent },
      {
        gate: 'gate1',
        outcome: 'failed',
        reason: 'ip_denied',
        detail: 'from afar',
        facts: {
          replaySkewMs: 5,
          nonce: 'n',
          nonceExpiresAt: '2026-11-21T12:01:00.000Z',
          signedTimestamp: `${'9'.repeat(600)}…`,
          seen: true,
        },
      },
      { gate: 'gate2', outcome: 'not evaluated', ...silent },
    ]);
  });

  it.each(MODES)('asks every gate in a dry run under %s without using anything up', async (mode) => {
    const run = recordingGates([fail('ip_denied'), pass]);
    const greedy: Gate = {
      name: 'greedy',
      check: () => Promise.reject(new Error('used up')),
      dryRun: () => fail('rate_limited'),
    };
    const judgement = await dryRunGates([...run.gates, greedy], sampleDelivery(), mode);
    expect(judgement).toMatchObject({
      refusal: mode === 'Enforce' ? 'ip_denied' : null,
      violations: ['ip_denied', 'rate_limited'],
    });
  });

  it.each(MODES)(
    'asks no expensive gate under %s about what a gate before it refused, in a dry run neither',
    async (mode) => {
      const expensive: Gate = {
        name: 'expensive',
        isExpensive: true,
        check: () => Promise.reject(new Error('too late')),
      };
      for (const judge of [runGates, dryRunGates]) {
        const { gates } = recordingGates([fail('ip_denied')]);
        const { violations, gateResults } = await judge([...gates, expensive], sampleDelivery(), mode);
        expect(violations).toEqual(['ip_denied']);
        expect(gateResults.at(-1)).toMatchObject({ gate: 'expensive', outcome: 'not evaluated' });
      }
    },
  );

  it('hands each gate what the gates before it found, failed ones too', async () => {
    const facts = (name: string) => ({ facts: { [name]: { found: true } } });
    const run = recordingGates([
      { ...fail('ip_denied'), evidence: { ...facts('a'), retryAfterMs: 5 } },
      { ...pass, evidence: { ...facts('b'), scheme: 'Stripe' } },
      pass,
    ]);
    const { evidence } = await runGates(run.gates, sampleDelivery(), 'Audit');
    const all = { facts: { a: { found: true }, b: { found: true } }, retryAfterMs: 5, scheme: 'Stripe' };
    const refusedFor = ['ip_denied'];
    expect(run.seen).toEqual([{}, { ...facts('a'), retryAfterMs: 5, refusedFor }, { ...all, refusedFor }]);
    expect(evidence).toEqual(all);
  });

  it.each(MODES)('lists a reason once under %s, however many gates give it', async (mode) => {
    const run = recordingGates([fail('ip_denied'), fail('ip_denied'), fail('rate_limited')]);
    const { violations } = await runGates(run.gates, sampleDelivery(), mode);
    expect(violations).toEqual(mode === 'Enforce' ? ['ip_denied'] : ['ip_denied', 'rate_limited']);
  });

  it('leaves the time to come again to the trace: no gate result has it', async () => {
    const limited = recordingGates([{ ...fail('rate_limited'), evidence: { retryAfterMs: 750 } }]);
    const { gateResults, evidence } = await runGates(limited.gates, sampleDelivery(), 'Audit');
    expect(JSON.stringify(gateResults)).not.toContain('retryAfter');
    expect(evidence.retryAfterMs).toBe(750);
  });

  it('keeps the detail of a single failure, and names each of several', async () => {
    const detail = async (mode: EnforcementMode) =>
      (
        await runGates(
          recordingGates([fail('ip_denied', 'from afar'), fail('rate_limited', 'too fast')]).gates,
          sampleDelivery(),
          mode,
        )
      ).detail;
    expect(await detail('Enforce')).toBe('from afar');
    expect(await detail('Audit')).toBe('ip_denied: from afar; rate_limited: too fast');
  });

  it.each(MODES)(
    'counts a gate that throws as failed under %s: never a pass, never an answer without a record',
    async (mode) => {
      const broken: Gate = {
        name: 'broken',
        check() {
          throw Object.assign(new TypeError('the key is canary'), { code: 'EACCES' });
        },
      };
      const judgement = await runGates([broken], sampleDelivery(), mode);
      expect(judgement).toMatchObject({
        refusal: mode === 'Enforce' ? 'verifier_error' : null,
        violations: ['verifier_error'],
        detail: 'gate "broken" failed: TypeError EACCES',
        gateResults: [{ gate: 'broken', outcome: 'failed' }],
      });
      expect(JSON.stringify(judgement)).not.toContain('canary');
    },
  );

  it('writes when a nonce ends as a date does, whatever was written before', async () => {
    const times = fc.array(fc.double({ min: -1e15, max: 8e15, noNaN: true }), { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(times, fc.integer({ min: 0, max: 2000 }), async (starts, lifeMs) => {
        const nonce = { header: '', value: 'n', digest: 'n', lifeMs };
        const gate: Gate = { name: 'replay', check: () => ({ passed: true, evidence: { nonce } }) };
        for (const receivedAt of starts) {
          const { gateResults } = await runGates([gate], { ...sampleDelivery(), receivedAt }, 'Enforce');
          expect(gateResults[0]?.facts.nonceExpiresAt).toBe(new Date(receivedAt + lifeMs).toISOString());
        }
      }),
    );
  });

  it.each([
    undefined,
    null,
    true,
    {},
    { passed: 'yes' },
    { passed: false },
    { passed: false, reason: 'bad_mood' },
    { passed: false, reason: 'toString' },
    { passed: false, reason: 'ip_denied', detail: { a: 1 } },
    { passed: true, evidence: null },
    { passed: true, evidence: 'none' },
    { reason: 'ip_denied' },
  ])("counts an operator's gate that answers %o, which is no verdict, as failed", async (answer) => {
    const gate: Gate = { name: 'own', check: () => answer as unknown as Verdict };
    expect(await runGates([gate], sampleDelivery(), 'Enforce')).toMatchObject({
      refusal: 'verifier_error',
      detail: expect.stringContaining('gate "own" gave no verdict'),
    });
  });
});
