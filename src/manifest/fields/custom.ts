import { z } from 'zod';
import { SIGNATURE_CHOICES } from '../../model/manifest.ts';
import { type FieldVerdict, field } from './row.ts';
import { anyCase, header, text } from './values.ts';
import { flag, normal, readAnew, readOtherwise, verdict } from './verdicts.ts';

type OneOrMore = string | readonly string[];

const ofCustom = { holds: 'value', decides: ['signature'], readBy: ['custom'], docs: 'custom' } as const;
/** An operator's short spec leaves the rest to the trigger. */
const ofDescribed = { ...ofCustom, readBy: ['custom', 'short spec'] } as const;
const ofTimestamp = { ...ofDescribed, docs: 'replay' } as const;

export const customFields = {
  webhookSignatureHeader: field({
    ...ofCustom,
    schema: z
      .union([header, z.array(header).min(1).max(11)])
      .describe(
        'Schemes Custom, Token and Jwt: header that carries the signature, or the token; Authorization by default for Token and Jwt. Scheme Custom: also a list, for example of signatures by several keys, any of which may match.',
      ),
    readBy: ['custom', 'names no header'],
    change: {
      rule: signatureHeaders,
      edits: {
        ladders: [['X-A', ['X-A', 'X-B']]],
        other: [
          [undefined, 'X-A'],
          ['X-A', 'X-B'],
        ],
        same: [
          ['X-A', ['x-a']],
          [
            ['X-A', 'X-B'],
            ['x-b', 'x-a'],
          ],
        ],
      },
    },
    plain: 'X-Signature',
  }),
  webhookSignatureForm: field({
    ...ofCustom,
    schema: text.describe(
      'Custom scheme: what the header looks like, such as `sha256={signature}` or `t={timestamp},v1={signature},...`, where `...` accepts several signatures; instead of the fields for prefix, delimiter, separator and keys.',
    ),
    change: readAnew('v1={signature}', 'v2={signature}'),
  }),
  webhookSignatureAlgorithm: field({
    ...ofCustom,
    schema: anyCase([...SIGNATURE_CHOICES.algorithms, ...SIGNATURE_CHOICES.keyPairs]).describe(
      'Custom scheme: hash of the HMAC, or the algorithm of a key pair whose public key is webhookHmacKey (PEM or JWK); sha256 by default.',
    ),
    change: readAnew('sha512', 'sha384'),
  }),
  webhookSignatureEncoding: field({
    ...ofCustom,
    schema: anyCase(SIGNATURE_CHOICES.encodings).describe(
      'Custom scheme: encoding of the signature; hexLower by default.',
    ),
    change: readAnew('base64', 'hexUpper'),
  }),
  webhookKeyEncoding: field({
    ...ofDescribed,
    schema: anyCase(SIGNATURE_CHOICES.keyEncodings).describe(
      'Schemes Custom, Jwt and HttpMessageSignatures: what the text of the key, or of a secret, stands for; utf8 (the text itself) by default.',
    ),
    readBy: ['custom', 'short spec', 'jwt', 'message signatures'],
    change: readAnew('utf8', 'base64'),
  }),
  webhookSignaturePrefix: field({
    ...ofCustom,
    schema: z.string().describe('Custom scheme: text before the digest.'),
    change: readAnew('v1=', 'v2='),
  }),
  webhookSignatureMultiValueDelimiter: field({
    ...ofDescribed,
    schema: text.describe('Custom scheme: separator of the segments of the header.'),
    change: readAnew(',', ';'),
    plain: ',',
  }),
  webhookSignatureKeyValueSeparator: field({
    ...ofDescribed,
    schema: text.describe('Custom scheme: separator inside a segment; "=" by default.'),
    change: readAnew(':', '='),
    plain: '=',
  }),
  webhookSignatureValueKey: field({
    ...ofDescribed,
    schema: text.describe('Custom scheme: key of the segment that holds the signature.'),
    change: readAnew('v1', 'v2'),
    plain: 'v1',
  }),
  webhookHeaderValuePrefix: field({
    ...ofDescribed,
    schema: z
      .string()
      .describe(
        'Schemes Custom, Token and Jwt: text before the whole header value; for Token and Jwt, "Bearer " by default if no header is named.',
      ),
    readBy: ['custom', 'short spec', 'names no header'],
    change: readAnew('Signature ', 'HMAC '),
  }),
  webhookAcceptMultipleSignatures: field({
    ...ofDescribed,
    schema: z.boolean().describe('Custom scheme: whether any of several matching segments may hold the signature.'),
    change: flag({
      whenTrue: 'weaker',
      on: 'Every signature that a delivery carries is tried.',
      off: 'One signature of a delivery is tried.',
    }),
  }),
  webhookAcceptedVersions: field({
    ...ofDescribed,
    schema: z.array(text).min(1).describe('Custom scheme: keys of the segments that are read.'),
    change: {
      rule: versions,
      edits: {
        ladders: [[['v1'], ['v1', 'v2']]],
        other: [[undefined, ['v1']]],
        same: [
          [
            ['v1', 'v2'],
            ['v2', 'v1'],
          ],
        ],
      },
    },
  }),
  webhookSignedPayload: field({
    ...ofCustom,
    schema: text.describe(
      'Custom scheme: what the signature covers, such as `{timestamp}.{body}`; instead of webhookSignedPayloadStrategy.',
    ),
    change: readAnew('{timestamp}.{body}', '{url}{body}'),
  }),
  webhookSignedPayloadStrategy: field({
    ...ofCustom,
    schema: anyCase(SIGNATURE_CHOICES.strategies).describe(
      'Custom scheme: what the signature covers; RawBody by default.',
    ),
    change: readAnew('TimestampDotBody', 'RawBody'),
    plain: 'ColonDelimited',
  }),
  webhookSignedPayloadDelimiter: field({
    ...ofDescribed,
    schema: z.string().describe('Custom scheme: delimiter between timestamp and body.'),
    change: readAnew(':', '.'),
    plain: ':',
  }),
  webhookSignedPayloadVersion: field({
    ...ofDescribed,
    schema: z.string().describe('Custom scheme: version literal of ColonDelimited.'),
    change: readAnew('v0', 'v1'),
    plain: 'v0',
  }),
  webhookCustomStrategyName: field({
    ...ofDescribed,
    schema: text.describe('Name of a registered payload strategy, for strategy Custom.'),
    change: readAnew('one', 'another'),
  }),
  webhookDeliveryIdHeader: field({
    ...ofDescribed,
    schema: header.describe('Custom scheme: header of the delivery’s id, which `{id}` stands for.'),
    change: readAnew('X-A', 'X-B'),
  }),
  webhookTimestampHeader: field({
    ...ofTimestamp,
    schema: header.describe('Header that carries the publisher’s timestamp.'),
    decides: ['signature', 'replay'],
    // If the scheme signs no timestamp, this header still decides the age of a delivery.
    readBy: 'every scheme',
    change: readAnew('X-A', 'X-B'),
    plain: 'X-Timestamp',
  }),
  webhookTimestampField: field({
    ...ofTimestamp,
    schema: text.describe('Custom scheme: path of the timestamp in the body, with dots between names.'),
    change: readAnew('at', 'sent.at'),
  }),
  webhookTimestampUnit: field({
    ...ofTimestamp,
    schema: anyCase(SIGNATURE_CHOICES.timestampUnits).describe(
      'Custom scheme: how the signed time is written; seconds or milliseconds, by its size, by default.',
    ),
    change: readAnew('seconds', 'milliseconds'),
  }),
  webhookTimestampValueKey: field({
    ...ofTimestamp,
    schema: text.describe('Key of the segment that holds the timestamp.'),
    change: readAnew('t', 'ts'),
    plain: 't',
  }),
  webhookRequireTimestamp: field({
    ...ofTimestamp,
    schema: z.boolean().describe('Whether a delivery without a timestamp fails; false by default.'),
    decides: ['signature', 'replay'],
    readBy: 'every scheme',
    change: flag({
      whenTrue: 'stronger',
      on: 'Deliveries without a timestamp fail the gate.',
      off: 'Deliveries without a timestamp pass if the scheme does not sign one.',
    }),
  }),
};

function signatureHeaders(before: OneOrMore | undefined, after: OneOrMore | undefined): FieldVerdict {
  const [from, to] = [before ?? [], after ?? []].map((names) => [names].flat().map(normal));
  const isMore = to?.some((name) => !from?.includes(name));
  const isLess = from?.some((name) => !to?.includes(name));
  if ((isMore && isLess) || before === undefined || after === undefined) return readOtherwise;
  if (isMore) return verdict('weaker', 'Signatures in more headers are read.');
  return isLess
    ? verdict('stronger', 'Signatures in fewer headers are read.')
    : verdict('same', 'They are the same headers.');
}

function versions(before: readonly string[] | undefined, after: readonly string[] | undefined): FieldVerdict {
  if (before === undefined || after === undefined) {
    return verdict('other', 'Signatures of other versions are read: deliveries that passed may be refused.');
  }
  if (after.some((version) => !before.includes(version))) {
    return verdict('weaker', 'Signatures of more versions are read.');
  }
  return before.every((version) => after.includes(version))
    ? verdict('same', 'They are the same versions.')
    : verdict('stronger', 'Signatures of fewer versions are read.');
}
