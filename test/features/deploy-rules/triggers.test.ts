import { describe, expect, it } from 'vitest';
import { compare, flow, inFlight, verdicts } from './samples.ts';

const steps = { a: { type: 'NoOp' } };
const hook = (inputs: object) => ({ type: 'webhook', inputs });
const withTriggers = (triggers: object) => flow(steps, { triggers });
const judge = (before: object, after: object) => compare(withTriggers(before), withTriggers(after));
const signed = { webhookSlug: 'in', webhookSignatureScheme: 'GitHub', webhookHmacKey: 'env:GITHUB_KEY' };

describe('the class of an edit of triggers', () => {
  it.each<[string, object, object, string[]]>([
    ['nothing', { hook: hook(signed) }, { hook: hook(signed) }, []],
    ['a trigger is added', {}, { hook: hook(signed) }, ['trigger-added safe triggers.hook']],
    ['a webhook trigger is removed', { hook: hook(signed) }, {}, ['trigger-removed caution triggers.hook']],
    ['a manual trigger is removed', { byHand: { type: 'manual' } }, {}, ['trigger-removed caution triggers.byHand']],
    [
      'a webhook trigger gets another key',
      { hook: hook(signed) },
      { other: hook({ ...signed, webhookReplayToleranceSeconds: 60 }) },
      [
        'trigger-renamed caution triggers.hook',
        'gate-strengthened safe triggers.other.inputs.webhookReplayToleranceSeconds',
      ],
    ],
    [
      'a manual trigger gets another key',
      { byHand: { type: 'manual' } },
      { other: { type: 'manual' } },
      ['trigger-renamed caution triggers.byHand'],
    ],
    [
      'triggers are switched off',
      { byHand: { type: 'manual' }, hook: hook(signed) },
      { byHand: { type: 'manual', enabled: false }, hook: { ...hook(signed), enabled: false } },
      ['trigger-switched-off caution triggers.byHand.enabled', 'trigger-switched-off caution triggers.hook.enabled'],
    ],
    [
      'a trigger is switched on again',
      { hook: { ...hook(signed), enabled: false } },
      { hook: hook(signed) },
      ['trigger-switched-on safe triggers.hook.enabled'],
    ],
    [
      'a trigger that gets another key is switched on again, and joins deliveries',
      { hook: { ...hook(signed), enabled: false } },
      { other: { ...hook(signed), coalesce: { key: 'body.id', quietSeconds: 5 } } },
      [
        'trigger-renamed caution triggers.hook',
        'trigger-switched-on safe triggers.other.enabled',
        'coalesce-changed caution triggers.other.coalesce',
      ],
    ],
    ['that a trigger is on is written out', { hook: hook(signed) }, { hook: { ...hook(signed), enabled: true } }, []],
    [
      'search keys change',
      { byHand: { type: 'manual' }, hook: { ...hook(signed), searchKeys: { order: 'body.id' } } },
      { byHand: { type: 'manual', searchKeys: {} }, hook: { ...hook(signed), searchKeys: { order: 'body.name' } } },
      ['search-keys-changed safe triggers.byHand.searchKeys', 'search-keys-changed safe triggers.hook.searchKeys'],
    ],
    [
      'deliveries come to share runs',
      { hook: hook(signed) },
      { hook: { ...hook(signed), coalesce: { key: 'body.id' } } },
      ['coalesce-changed caution triggers.hook.coalesce'],
    ],
    [
      'deliveries share runs for longer',
      { hook: { ...hook(signed), coalesce: { key: 'body.id' } } },
      { hook: { ...hook(signed), coalesce: { key: 'body.id', maxSeconds: 60 } } },
      ['coalesce-changed caution triggers.hook.coalesce'],
    ],
    [
      'deliveries share no runs any more',
      { hook: { ...hook(signed), coalesce: { key: 'body.id' } } },
      { hook: hook(signed) },
      ['coalesce-changed caution triggers.hook.coalesce'],
    ],
    [
      'defaults of shared runs are written out',
      { hook: { ...hook(signed), coalesce: { key: 'body.id' } } },
      { hook: { ...hook(signed), coalesce: { key: 'body.id', quietSeconds: 2, maxSeconds: 30, collect: 100 } } },
      [],
    ],
    [
      'a trigger is of another type',
      { hook: hook(signed) },
      { hook: { type: 'manual' } },
      ['trigger-type-changed caution triggers.hook'],
    ],
    [
      'webhook triggers change places',
      { one: hook(signed), two: hook({}) },
      { two: hook({}), one: hook(signed) },
      ['first-webhook-changed caution triggers'],
    ],
    [
      'a webhook trigger is added in front of the first',
      { one: hook(signed) },
      { two: hook({}), one: hook(signed) },
      ['first-webhook-changed caution triggers', 'trigger-added safe triggers.two'],
    ],
    [
      'a schedule is changed',
      { nightly: { type: 'cron', inputs: { cronExpression: '0 2 * * *' } } },
      {
        nightly: { type: 'cron', inputs: { cronExpression: '0 3 * * *', timeZone: 'Europe/Berlin', onMissed: 'skip' } },
      },
      [
        'cron-changed safe triggers.nightly.inputs.cronExpression',
        'on-missed-changed safe triggers.nightly.inputs.onMissed',
        'time-zone-changed safe triggers.nightly.inputs.timeZone',
      ],
    ],
    [
      'inputs of a manual trigger are changed',
      { byHand: { type: 'manual', inputs: { hint: 'a' } } },
      { byHand: { type: 'manual', inputs: { hint: 'b' } } },
      ['trigger-inputs-changed safe triggers.byHand.inputs.hint'],
    ],
  ])('%s', (_, before, after, expected) => {
    expect(verdicts(judge(before, after)).sort()).toEqual(expected.sort());
  });
});

describe('what a webhook trigger still checks', () => {
  it.each([
    ['an empty key', { ...signed, webhookHmacKey: '' }],
    ['an empty key that wins over a legacy one', { ...signed, webhookHmacKey: '', webhookSecret: 'env:GITHUB_KEY' }],
    ['a previous key that was not its own', { ...signed, webhookHmacKeyPrevious: 'env:API_TOKEN' }],
  ])('takes %s for a caution', (_, after) => {
    const before = { ...signed, webhookHmacKeyPrevious: 'env:GITHUB_KEY_OLD' };
    const classes = judge({ in: hook(before) }, { in: hook({ ...before, ...after }) }).map((each) => each.class);
    expect(classes).toContain('caution');
  });

  it.each([
    ['the key is removed', {}, 'webhookHmacKey', 'Nothing can be verified, and no key is learned'],
    [
      'the key is removed and the trigger learns it',
      { webhookLearnKey: true },
      'webhookHmacKey',
      'the sender of that handshake can deliver from then on, even a stranger',
    ],
    ['the trigger learns its key', { webhookLearnKey: true }, 'webhookLearnKey', 'from any sender'],
  ])('tells what follows where %s', (_, after, field, consequence) => {
    const before = { webhookSlug: 'in', webhookSignatureScheme: 'Asana' };
    const findings = judge(
      { in: hook({ ...before, webhookHmacKey: 'env:GITHUB_KEY' }) },
      { in: hook({ ...before, ...after }) },
    );
    const found = findings.find(({ path }) => path === `triggers.in.inputs.${field}`);
    expect(found).toMatchObject({ class: 'caution', consequence: expect.stringContaining(consequence) });
  });

  it('tells that a learned key stays behind if its trigger is renamed', () => {
    const learns = { webhookSlug: 'in', webhookSignatureScheme: 'Asana', webhookLearnKey: true };
    const [finding] = judge({ in: hook(learns) }, { other: hook(learns) });
    expect(finding).toMatchObject({ rule: 'trigger-renamed', consequence: expect.stringContaining('The learned key') });
  });

  it('takes a rotation of keys for safe', () => {
    const rotated = { ...signed, webhookHmacKey: 'env:GITHUB_KEY_OLD', webhookHmacKeyPrevious: 'env:GITHUB_KEY' };
    expect(judge({ in: hook(signed) }, { in: hook(rotated) }).map((each) => each.class)).toEqual(['safe', 'safe']);
  });

  it('takes the present name of a key for its legacy name', () => {
    const legacy = { webhookSecret: 'env:GITHUB_KEY', webhookSecretPrevious: 'env:GITHUB_KEY_OLD' };
    const present = { webhookHmacKey: 'env:GITHUB_KEY', webhookHmacKeyPrevious: 'env:GITHUB_KEY_OLD' };
    expect(new Set(judge({ in: hook(legacy) }, { in: hook(present) }).map((each) => each.class))).toEqual(
      new Set(['safe']),
    );
  });

  it('opens to every address where one source of the allow list is left out, and says nothing more where the other stays', () => {
    const both = { webhookIpAllowList: ['10.0.0.1'], webhookIpAllowListPreset: 'github' };
    expect(verdicts(judge({ in: hook(both) }, { in: hook({ webhookIpAllowListPreset: 'github' }) }))).toEqual([
      'gate-strengthened safe triggers.in.inputs.webhookIpAllowList',
    ]);
    expect(judge({ in: hook(both) }, { in: hook({}) })[0]?.consequence).toContain('Every address may deliver.');
  });
});

describe('what a finding shows of a trigger', () => {
  it('never holds a secret', () => {
    const open = { webhookSlug: 'in', webhookSignatureScheme: 'GitHub', webhookHmacKey: 'literal-key' };
    const url = (token: string) => ({ ...open, webhookPublicUrl: `https://u:${token}@example.com/in?token=${token}` });
    const all = [
      ...judge({ in: hook(url('first-secret')) }, { in: hook(url('second-secret')) }),
      ...judge({ in: hook(url('first-secret')) }, {}),
      ...judge({}, { in: hook(url('first-secret')) }),
      ...judge({ in: hook(signed) }, { in: hook(open) }),
      ...judge({ in: hook(url('first-secret')) }, { in: hook(open) }),
    ];
    expect(JSON.stringify(all)).not.toMatch(/literal-key|first-secret|second-secret|a key of the environment/);
    expect(all).toHaveLength(4);
  });

  it('says how many runs in flight a removed trigger started', () => {
    const triggers = { manual: { type: 'manual' } };
    const [finding] = compare(withTriggers(triggers), withTriggers({}), inFlight({ a: 'runs' }, { a: 'waits' }));
    expect(finding?.live).toBe('2 runs in flight were started by `manual`');
  });

  it('says of a new webhook trigger that nothing is checked', () => {
    const [finding] = judge({}, { in: hook({ webhookSlug: 'in' }) });
    expect(finding?.consequence).toContain('No signature is checked');
  });
});
