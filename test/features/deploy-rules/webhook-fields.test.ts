import { describe, expect, it } from 'vitest';
import { compareRevisions } from '../../../src/deploys/changes/index.ts';
import type { Effect, WebhookInputs } from '../../../src/manifest/webhook-fields.ts';
import { editsOf, FIELDS } from '../../manifest/field-edits.ts';
import { flow, QUIET, SETTINGS, snapshot, verdicts } from './samples.ts';

const FOUND: Readonly<Record<Effect, string>> = {
  weaker: 'gate-weakened caution',
  stronger: 'gate-strengthened safe',
  other: 'gate-changed caution',
  same: 'webhook-answer-changed safe',
};
const findingOf = (expected: string) => FOUND[expected as Effect] ?? expected;

function judge(before: WebhookInputs, after: WebhookInputs, settings = SETTINGS): string[] {
  const [one, two] = [before, after].map((inputs) =>
    snapshot(flow({ a: { type: 'NoOp' } }, { triggers: { in: { type: 'webhook', inputs } } })),
  );
  return verdicts(compareRevisions({ before: one ?? null, after: two ?? null, live: QUIET, settings }));
}

const having = (field: string, value: unknown) => (value === undefined ? {} : { [field]: value });

describe('an edit of a webhook field', () => {
  it.each(FIELDS)('has an example in the row of %s', (field) => {
    expect(editsOf(field).length).toBeGreaterThan(0);
  });

  it.each(FIELDS.flatMap(editsOf))(
    '$field from $from to $to is $expected',
    ({ field, with: rest, from, to, expected }) => {
      const found = judge({ ...rest, ...having(field, from) }, { ...rest, ...having(field, to) });
      expect(found).toEqual([`${findingOf(expected)} triggers.in.inputs.${field}`]);
    },
  );

  it('takes a header that replaces a hash as the identity of deliveries for weaker', () => {
    const before = { webhookReplayToleranceSeconds: 60 };
    expect(judge(before, { ...before, webhookNonceHeader: 'X-Id' })).toEqual([
      `${FOUND.weaker} triggers.in.inputs.webhookNonceHeader`,
    ]);
  });

  it('takes a flag for a key to be learned for none while a key is configured', () => {
    const before = { webhookHmacKey: 'env:GITHUB_KEY' };
    expect(judge(before, { ...before, webhookLearnKey: true })).toEqual([
      `${FOUND.same} triggers.in.inputs.webhookLearnKey`,
    ]);
  });

  it.each<[WebhookInputs, WebhookInputs, Partial<typeof SETTINGS>, Effect]>([
    [{}, { webhookReplayToleranceSeconds: 300 }, { replayToleranceSeconds: 60 }, 'weaker'],
    [{ webhookReplayToleranceSeconds: 300 }, {}, { replayToleranceSeconds: 60 }, 'stronger'],
    [{ webhookReplayToleranceSeconds: 0 }, {}, { replayToleranceSeconds: 60 }, 'stronger'],
    [{}, { webhookNonceHeader: 'X-Id' }, { replayToleranceSeconds: 60 }, 'weaker'],
    [{}, { webhookRateLimitPermitsPerSecond: 9 }, { rateLimitPermitsPerSecond: 5 }, 'weaker'],
    [{ webhookRateLimitPermitsPerSecond: 9 }, {}, { rateLimitPermitsPerSecond: 5 }, 'stronger'],
    [{}, { webhookRateLimitBurstSize: 9 }, { rateLimitPermitsPerSecond: 5 }, 'weaker'],
    [{}, { webhookRateLimitBurstSize: 9 }, { rateLimitPermitsPerSecond: 5, rateLimitBurstSize: 20 }, 'stronger'],
    [{}, { webhookRateLimitPerIp: false }, { rateLimitPermitsPerSecond: 5, rateLimitPerIp: true }, 'stronger'],
    [{}, { webhookEnforcementMode: 'Audit' }, { enforcementMode: 'Enforce' }, 'weaker'],
    [{ webhookEnforcementMode: 'Audit' }, {}, { enforcementMode: 'Enforce' }, 'stronger'],
    [{ webhookEnforcementMode: 'Enforce' }, {}, { enforcementMode: 'Enforce' }, 'same'],
  ])(
    'compares a field that is left out with what the service sets: %j to %j with %j',
    (before, after, set, expected) => {
      const [field] = Object.keys({ ...before, ...after });
      expect(judge(before, after, { ...SETTINGS, ...set })).toEqual([`${FOUND[expected]} triggers.in.inputs.${field}`]);
    },
  );
});
