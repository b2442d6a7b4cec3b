import { z } from 'zod';
import { DEFAULT_COMPONENTS } from '../../model/manifest.ts';
import { type FieldVerdict, field } from './row.ts';
import { text } from './values.ts';
import { demand, otherwise, verdict } from './verdicts.ts';

const keySetUrl = z.string().refine((given) => isKeySetUrl(given), {
  error:
    'is not an absolute https URL without user and fragment, such as https://publisher.example/.well-known/jwks.json',
});

const COMPONENT = /^(?:@?[a-z0-9*_.-]+)(?:;[a-z]+(?:="[\x20\x21\x23-\x5b\x5d-\x7e]*")?)*$/;

const ofStandard = { holds: 'value', decides: ['signature'], docs: 'standards' } as const;

/** Schemes `Jwt` and `HttpMessageSignatures`. Publishers that sign by a standard leave some fields to the trigger. */
export const tokenFields = {
  webhookJwksUrl: field({
    ...ofStandard,
    schema: keySetUrl.describe(
      'Schemes Jwt and HttpMessageSignatures: https URL of the publisher’s public keys (JWKS), instead of webhookHmacKey.',
    ),
    readBy: ['jwt', 'message signatures', 'publisher asks for it'],
    change: {
      rule: () =>
        verdict('other', 'Signatures are verified with the keys at another URL, or with those of the trigger.'),
      edits: otherwise('https://publisher.example/keys', 'https://other.example/keys'),
    },
  }),
  webhookJwtIssuer: field({
    ...ofStandard,
    schema: text.describe('Scheme Jwt: what the claim "iss" has to be.'),
    readBy: ['jwt', 'publisher asks for it'],
    change: demand('of any issuer that a key of the trigger signs for', 'publisher', 'another'),
  }),
  webhookJwtAudience: field({
    ...ofStandard,
    schema: text.describe('Scheme Jwt: what the claim "aud" has to be, or to contain.'),
    readBy: ['jwt', 'publisher asks for it'],
    change: demand('for any audience', 'hooks', 'others'),
  }),
  webhookJwtBodyHashClaim: field({
    ...ofStandard,
    schema: text.describe(
      'Scheme Jwt: claim that holds a hash of the body, in hex or base64; without it the body is not signed.',
    ),
    readBy: ['jwt'],
    change: demand('with any body', 'sha256', 'hash'),
  }),
  webhookRequiredComponents: field({
    ...ofStandard,
    schema: z
      .array(text.regex(COMPONENT, { error: 'is not a component, such as "@method" or "content-digest"' }))
      .min(1)
      .describe(
        'Scheme HttpMessageSignatures: what a signature has to cover; "@method", "@path" and "content-digest" by default.',
      ),
    readBy: ['message signatures'],
    change: {
      rule: components,
      edits: {
        ladders: [[['@method', '@path', 'content-digest', 'x-id'], undefined, ['content-digest']]],
        other: [[['@method'], ['@path']]],
        same: [[['content-digest', '@path', '@method'], undefined]],
      },
    },
  }),
  webhookSignatureKeyId: field({
    ...ofStandard,
    schema: text.describe('Scheme HttpMessageSignatures: the only keyid whose signatures count.'),
    readBy: ['message signatures'],
    change: demand('signed under any key id', 'k1', 'k2'),
  }),
};

function isKeySetUrl(given: string): boolean {
  if (!/^https:\/\//i.test(given) || !URL.canParse(given)) return false;
  const { username, password, hash } = new URL(given);
  return username === '' && password === '' && hash === '';
}

function components(
  before: readonly string[] = DEFAULT_COMPONENTS,
  after: readonly string[] = DEFAULT_COMPONENTS,
): FieldVerdict {
  const isGone = before.some((component) => !after.includes(component));
  const isNew = after.some((component) => !before.includes(component));
  if (isGone) {
    return verdict(isNew ? 'other' : 'weaker', 'Signatures pass that cover less: what is not signed can be changed.');
  }
  return isNew
    ? verdict('stronger', 'Signatures that do not cover all of it fail the gate.')
    : verdict('same', 'They are the same components.');
}
