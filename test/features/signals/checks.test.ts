import { describe, expect, it } from 'vitest';
import { stepTypes } from '../../../src/config/steps.ts';
import { signalChecks } from '../../../src/features/signals/awaited-steps.ts';
import { handlerTable } from '../../../src/flows/handlers/index.ts';
import { formatIssue } from '../../../src/manifest/issues.ts';
import { parseManifest } from '../../../src/manifest/load.ts';

const KEY = `\${trigger.body.sha}`;
const wait = (inputs: object = { key: KEY }) => ({ type: 'WaitForSignal', inputs });

/** The issues that a check finds in a flow with this trigger and these steps. */
function issuesOf(review: object, steps: object = { approval: wait() }): string[] {
  const triggers = { push: { type: 'manual' }, review: { type: 'webhook', ...review } };
  const manifest = { id: '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10', version: '1', triggers, steps };
  const { issues } = parseManifest(JSON.stringify(manifest), 'flow.json', {
    handlers: handlerTable(stepTypes().handlers),
    readSecret: () => ({ error: 'none' }),
    strict: true,
    checks: [signalChecks],
  });
  return issues.map(formatIssue);
}

const signals = (step = 'approval', key = 'body.sha') => ({ signals: { step, key } });
const loop = (steps: object) => ({ each: { type: 'ForEach', forEach: [1], steps } });

describe('a trigger that signals', () => {
  it('names a step that waits for a key, also of a loop', () => {
    expect(issuesOf(signals())).toEqual([]);
    expect(issuesOf(signals('each.approval'), loop({ approval: wait() }))).toEqual([]);
  });

  it.each([
    ['of no step', signals('aproval'), undefined, 'signals.step: is not a step of this flow; did you mean "approval"?'],
    ['of a loop without its loop', signals(), loop({ approval: wait() }), 'did you mean "each.approval"?'],
    [
      'of a key that compares',
      signals('approval', 'body.sha == 1'),
      undefined,
      'signals.key: gives a bool; a key of deli',
    ],
    ['of a step that does not wait', signals('a'), { a: { type: 'NoOp' }, approval: wait() }, 'is a NoOp step'],
    ['of a step without a key', signals(), { approval: wait({}) }, 'signals.step: has no key: its inputs need one'],
    ['that is no path', signals('a b'), undefined, 'signals.step: is not the key of a step'],
    ['with another field', { signals: { step: 'approval', key: 'body.sha', choice: 'body.c' } }, undefined, 'choice'],
    ['with coalesce', { ...signals(), coalesce: { key: 'body.sha' } }, undefined, 'coalesce: is not accepted together'],
    [
      'with an answer',
      { ...signals(), inputs: { webhookRespond: { step: 'approval' } } },
      undefined,
      'webhookRespond: is',
    ],
    [
      'that holds',
      { ...signals(), inputs: { webhookHoldDeliveries: true } },
      undefined,
      'webhookHoldDeliveries: is not',
    ],
    [
      'with a log',
      { ...signals(), reconcile: { from: 'github', repo: 'a/b', hook: 1, token: 'env:T' } },
      undefined,
      'reconcile: is not accepted together with signals',
    ],
  ])('is refused if it is %s', (_what, review, steps, said) => {
    expect(issuesOf(review, steps).join('\n')).toContain(said);
  });

  it('is missing where a step has a key and no trigger names it', () => {
    expect(issuesOf({}).join('\n')).toContain('steps.approval.inputs.key: has no effect: no trigger says "signals"');
  });
});
