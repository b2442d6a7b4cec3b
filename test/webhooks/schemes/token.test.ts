import { describe, expect, it } from 'vitest';
import { describeSchemes } from '../../../src/features/schemes/descriptions.ts';
import type { WebhookInputs } from '../../../src/manifest/webhook-inputs.ts';
import { replayGate } from '../../../src/webhooks/gates/replay.ts';
import { createSchemeRegistry, resolveScheme } from '../../../src/webhooks/schemes/resolve.ts';
import { randomKey, signDelivery } from '../../../src/webhooks/schemes/sign.ts';
import { weaknessesOf } from '../../../src/webhooks/weaknesses.ts';
import { deliveryOf, judge, NOW, received, settingsOf, triggerOf } from './fixtures.ts';

const KEY = 'a token of more than sixteen bytes';
const OLD = 'the token that was there before it';
const USER = 'hooks:a password of sixteen';

const token = (others: WebhookInputs = {}): WebhookInputs => ({ webhookSignatureScheme: 'Token', ...others });
const basic: WebhookInputs = { webhookSignatureScheme: 'basic' };
const base64 = (text: string) => Buffer.from(text).toString('base64');

async function outcome(
  inputs: WebhookInputs,
  headers: Record<string, string>,
  key = inputs === basic ? USER : KEY,
): Promise<string> {
  const verdict = await judge(
    { inputs, key, previousKey: inputs === basic ? undefined : OLD },
    deliveryOf({ headers }),
  );
  if (!verdict.passed) return verdict.reason;
  return verdict.evidence?.usedPreviousKey === true ? 'previous' : 'current';
}

describe('a token', () => {
  it.each<[string, WebhookInputs, Record<string, string>, string]>([
    ['is a bearer token by default', token(), { authorization: `Bearer ${KEY}` }, 'current'],
    ['may have its word in any case', token(), { authorization: `bearer ${KEY}` }, 'current'],
    ['may be the previous one', token(), { authorization: `Bearer ${OLD}` }, 'previous'],
    ['is whole', token(), { authorization: `Bearer ${KEY.slice(0, -1)}` }, 'signature_mismatch'],
    ['has nothing behind it', token(), { authorization: `Bearer ${KEY} ` }, 'signature_mismatch'],
    ['needs its word', token(), { authorization: KEY }, 'signature_malformed'],
    ['is not in two lines', token(), { authorization: `Bearer ${KEY}, Bearer ${KEY}` }, 'signature_mismatch'],
    ['is not in another header', token(), { 'x-token': KEY }, 'signature_missing'],
    ['is alone in a header that is named', token({ webhookSignatureHeader: 'X-Api' }), { 'x-api': KEY }, 'current'],
    [
      'is alone in Authorization where that is named',
      token({ webhookSignatureHeader: 'Authorization' }),
      { authorization: KEY },
      'current',
    ],
    [
      'is behind what the trigger says',
      token({ webhookSignatureHeader: 'X-Api', webhookHeaderValuePrefix: 'Key ' }),
      { 'x-api': `Key ${KEY}` },
      'current',
    ],
    ['is the user and the password', basic, { authorization: `Basic ${base64(USER)}` }, 'current'],
    ['may be written basic', basic, { authorization: `basic ${base64(USER)}` }, 'current'],
    ['has the right password', basic, { authorization: `Basic ${base64(`${USER}x`)}` }, 'signature_mismatch'],
    ['has the right user', basic, { authorization: `Basic ${base64(`x${USER}`)}` }, 'signature_mismatch'],
    ['is encoded', basic, { authorization: `Basic ${USER}` }, 'signature_mismatch'],
    ['is no bearer token', basic, { authorization: `Bearer ${base64(USER)}` }, 'signature_malformed'],
  ])('%s', async (_rule, inputs, headers, expected) => {
    expect(await outcome(inputs, headers)).toBe(expected);
  });

  it('verifies nothing without a key', async () => {
    const verdict = await judge({ inputs: token() }, deliveryOf({ headers: { authorization: 'Bearer ' } }));
    expect(verdict).toMatchObject({ passed: false, reason: 'key_not_configured' });
  });

  it('is refused as a key where it is no user and password', async () => {
    await expect(judge({ inputs: basic, key: 'no colon' }, deliveryOf())).rejects.toThrow('which is user:password');
  });

  it('stays out of the nonce, which is a hash of the body', async () => {
    const nonceOf = async (key: string, body: string) => {
      const inputs = token({ webhookReplayToleranceSeconds: 300 });
      const delivery = deliveryOf({ headers: { authorization: `Bearer ${key}` }, body });
      const verdict = await judge({ inputs, key: KEY, previousKey: OLD }, delivery);
      const gate = replayGate.prepare(triggerOf(inputs), settingsOf());
      const replay = await gate?.check(delivery, verdict.evidence ?? {});
      return replay?.evidence?.nonce?.value;
    };
    expect(await nonceOf(KEY, 'one')).toBe(await nonceOf(OLD, 'one'));
    expect(await nonceOf(KEY, 'one')).not.toBe(await nonceOf(KEY, 'two'));
  });
});

describe('a scheme in which the key is sent', () => {
  const schemes = createSchemeRegistry();
  const specOf = (inputs: WebhookInputs) => {
    const scheme = resolveScheme(schemes, inputs);
    if (scheme?.kind !== 'spec') throw new Error('no spec');
    return scheme.spec;
  };

  it.each([token(), token({ webhookSignatureHeader: 'X-Api', webhookHeaderValuePrefix: 'Key ' }), basic])(
    'verifies what is signed for it: %o',
    async (inputs) => {
      const spec = specOf(inputs);
      const key = randomKey(spec);
      const common = { body: Buffer.from('{}'), url: 'https://a.example/', deliveryId: '1', timestampMs: NOW };
      const delivery = received(signDelivery({ spec, key, ...common }));
      expect(await judge({ inputs, key }, delivery)).toMatchObject({ passed: true });
      expect(await judge({ inputs, key: randomKey(spec) }, delivery)).toMatchObject({ passed: false });
    },
  );

  it('is listed with grade F', () => {
    const listed = describeSchemes(schemes).filter(({ kind }) => kind === 'standard');
    expect(listed).toMatchObject([
      { name: 'Token', headers: ['Authorization'], grade: 'F' },
      { name: 'Basic', headers: ['Authorization'], grade: 'F' },
      { name: 'Jwt', headers: ['Authorization'], grade: null },
      { name: 'HttpMessageSignatures', headers: ['Signature', 'Signature-Input'], grade: null },
    ]);
  });

  it.each([
    ['hooks:short', 'has fewer than 16 bytes: it may be guessed'],
    ['a user of many characters:short', 'has fewer than 16 bytes: it may be guessed'],
    ['hooks:changeme', 'is a placeholder, which anyone can guess: replace it with a secret'],
    ['hooks:aaaaaaaaaaaaaaaaaaaa', 'repeats one byte, which anyone can guess'],
  ])('is weak by its password alone: %s', (key, message) => {
    const spec = specOf(basic);
    const trigger = triggerOf({ ...basic, webhookHmacKey: key }, { current: key });
    expect(weaknessesOf(trigger, [spec, spec])).toMatchObject([{ field: 'webhookHmacKey', message, isOpen: true }]);
  });
});
