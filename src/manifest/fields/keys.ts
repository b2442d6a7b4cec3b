import { z } from 'zod';
import { type FieldVerdict, field, type Reads, type Triggers } from './row.ts';
import { text } from './values.ts';
import { flag, verdict } from './verdicts.ts';

const ofKey = { holds: 'secret', readBy: 'every scheme', docs: 'signature', isOwnOnSharedSlug: true } as const;

const currentKey = {
  rule: 'own rule',
  edits: {
    oneWay: [
      [undefined, 'env:GITHUB_KEY', 'secret-reference-changed safe'],
      ['env:GITHUB_KEY', 'env:GITHUB_KEY_OLD', 'secret-reference-changed safe'],
      ['env:GITHUB_KEY', undefined, 'weaker'],
    ],
  },
} as const;

const previousKey = {
  rule: 'own rule',
  edits: {
    with: { webhookHmacKey: 'env:GITHUB_KEY' },
    oneWay: [
      [undefined, 'env:GITHUB_KEY_OLD', 'weaker'],
      ['env:API_TOKEN', 'env:GITHUB_KEY_OLD', 'weaker'],
      ['env:GITHUB_KEY_OLD', undefined, 'stronger'],
    ],
  },
} as const;

const keyList = z
  .array(text)
  .min(1)
  .max(10)
  .refine((list) => new Set(list).size === list.length, { error: 'names a key twice' });

export const keyFields = {
  webhookHmacKey: field({
    ...ofKey,
    schema: z
      .union([z.string(), keyList])
      .describe(
        'HMAC key, or the public key, token or name that the scheme needs instead: env:NAME, file:PATH, or plain text. A list of several keys in force, each of which may sign.',
      ),
    decides: ['signature'],
    change: {
      rule: 'own rule',
      edits: {
        oneWay: [
          ...currentKey.edits.oneWay,
          ['env:GITHUB_KEY', ['env:GITHUB_KEY', 'env:API_TOKEN'], 'weaker'],
          [['env:GITHUB_KEY', 'env:API_TOKEN'], ['env:API_TOKEN'], 'stronger'],
          [['env:GITHUB_KEY', 'env:API_TOKEN'], ['env:API_TOKEN', 'env:GITHUB_KEY'], 'secret-reference-changed safe'],
        ],
      },
    },
    plain: 'env:KEY',
  }),
  webhookHmacKeyPrevious: field({
    ...ofKey,
    schema: z.string().describe('Previous HMAC key, also accepted while a key is rotated.'),
    decides: ['signature'],
    change: previousKey,
  }),
  webhookSecret: field({
    ...ofKey,
    schema: z.string().describe('Legacy name of webhookHmacKey.'),
    decides: ['signature'],
    change: currentKey,
  }),
  webhookSecretPrevious: field({
    ...ofKey,
    schema: z.string().describe('Legacy name of webhookHmacKeyPrevious.'),
    decides: ['signature'],
    change: previousKey,
  }),
  webhookLearnKey: field({
    schema: z
      .boolean()
      .describe('If there is no key, stores the first one that the publisher sends in a handshake; false by default.'),
    holds: 'value',
    decides: ['signature'],
    readBy: ['hands over its key'],
    docs: 'signature',
    change: {
      rule: learnKey,
      edits: {
        same: [[undefined, false]],
        oneWay: [
          [undefined, true, 'weaker'],
          [false, true, 'weaker'],
          [true, undefined, 'other'],
          [true, false, 'other'],
        ],
      },
    },
  }),
  webhookSignatureScheme: field({
    schema: text.describe('Name of a signature scheme, any case; `sluice schemes` lists them.'),
    holds: 'value',
    // An unknown name yields no gate, and without a scheme nothing counts as verified.
    decides: ['signature', 'unverifiedRateLimit', 'eventId'],
    readBy: 'every scheme',
    docs: 'signature',
    change: {
      rule: scheme,
      edits: { ladders: [['GitHub', undefined]], other: [['GitHub', 'Stripe']], same: [['GitHub', 'github']] },
    },
    plain: 'Generic',
  }),
  webhookAllowSha1: field({
    schema: z.boolean().describe('Allows a scheme that signs with SHA-1, for this trigger only; false by default.'),
    holds: 'value',
    decides: ['signature'],
    readBy: ['custom', 'short spec', 'may sign with SHA-1'],
    docs: 'signature',
    change: flag({
      whenTrue: 'weaker',
      on: 'Signatures made with SHA-1 pass, even if SHA-1 is turned off for the service.',
      off: 'Signatures made with SHA-1 pass only if SHA-1 is turned on for the service.',
    }),
  }),
  webhookSandbox: field({
    schema: z
      .boolean()
      .describe('Certificates of the test system of a publisher such as PayPal count too; false by default.'),
    holds: 'value',
    decides: ['signature'],
    readBy: ['has a test system'],
    docs: 'signature',
    change: flag({
      whenTrue: 'weaker',
      on: 'Deliveries of the publisher’s test system pass too.',
      off: 'Deliveries of the publisher’s test system fail the gate.',
    }),
  }),
  webhookVerifyToken: field({
    ...ofKey,
    schema: z
      .string()
      .describe('Token that a publisher such as Meta sends in its handshake: env:NAME, file:PATH, or plain text.'),
    // Opens only the handshake by which a publisher registers the URL.
    decides: 'answer',
    readBy: ['needs a verify token'],
    change: {
      rule: 'own rule',
      edits: {
        oneWay: [
          [undefined, 'env:API_TOKEN', 'secret-reference-changed safe'],
          ['env:API_TOKEN', 'env:GITHUB_KEY', 'secret-reference-changed safe'],
          ['env:API_TOKEN', undefined, 'secret-reference-changed safe'],
        ],
      },
    },
  }),
};

type KeyInputs = Reads<'webhookHmacKey' | 'webhookSecret', string | readonly string[]> &
  Reads<'webhookLearnKey', boolean>;

/** Decides as the gate does; reading the manifest made sure that the scheme's publisher sends a key. */
export function learnsKey(inputs: Partial<KeyInputs>): boolean {
  return inputs.webhookLearnKey === true && inputs.webhookHmacKey === undefined && inputs.webhookSecret === undefined;
}

/** The first key to arrive wins for good, so the trigger is open until then. */
function learnKey(_before: unknown, _after: unknown, { from, to }: Triggers<KeyInputs>): FieldVerdict {
  if (learnsKey(from) === learnsKey(to)) return verdict('same', 'It has no effect while a key is configured.');
  if (learnsKey(to)) {
    return verdict(
      'weaker',
      'The trigger uses the key that it learned earlier, if there is one, or else the first one that a handshake sends, from any sender.',
    );
  }
  return (to.webhookHmacKey ?? to.webhookSecret)
    ? verdict('stronger', 'The configured key is used, not a learned one.')
    : verdict(
        'other',
        'No key is learned, and a learned one is no longer used: every delivery fails the signature gate. Enforce refuses them; Off and Audit accept them.',
      );
}

function scheme(before: string | undefined, after: string | undefined): FieldVerdict {
  if (after === undefined)
    return verdict('weaker', 'Signatures are no longer checked: anyone who knows the URL can start runs.');
  if (before === undefined) return verdict('stronger', 'Deliveries without a valid signature fail the gate.');
  if (before.trim().toLowerCase() === after.trim().toLowerCase()) {
    return verdict('same', 'It is the same scheme: names are case-insensitive.');
  }
  return verdict('other', 'Deliveries signed with the old scheme fail the gate; those signed with the new one pass.');
}
