import { z } from 'zod';
import { INERT_TYPES, inertType } from '../../model/inert-content.ts';
import { ENFORCEMENT_MODES, GUID } from '../../model/manifest.ts';
import { type FieldVerdict, field, type Triggers } from './row.ts';
import { anyCase, isHttpUrl } from './values.ts';
import { answerOnly, effectOf, otherwise, verdict } from './verdicts.ts';

const SLUG = /^[A-Za-z0-9][A-Za-z0-9._~-]{0,127}$/;
const MEDIA_TYPE = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+( *;[\t\x20-\x7e]*)?$/;

const slug = z
  .string()
  .regex(SLUG, {
    error: 'is not a slug; 1 to 128 letters, digits, ".", "_", "~" and "-" are accepted, a letter or digit first',
  })
  .refine((given) => !GUID.test(given), { error: 'looks like a GUID, which only a flow id may' });

const publicUrl = z.string().refine((given) => isHttpUrl(given) || /^(env|file):/i.test(given), {
  error:
    'is not an absolute http or https URL, such as https://hooks.example.com/flows/api/webhook/orders, and not env:NAME or file:PATH',
});

const response = z.strictObject({
  contentType: z
    .string()
    .regex(MEDIA_TYPE, { error: 'is not a media type, such as application/json', abort: true })
    .refine((given) => inertType(given) !== undefined, {
      error: `is a type that browsers may run, on the origin of the dashboard; accepted are ${INERT_TYPES}`,
    })
    .describe(`Content type of the answer: ${INERT_TYPES}. The body is sent in UTF-8, without other parameters.`),
  body: z.string().describe('Body of the answer.'),
});

export const slugFields = {
  webhookSlug: field({
    schema: slug.describe('Last segment of the URL that publishers call; any case.'),
    holds: 'value',
    decides: 'route',
    readBy: 'every scheme',
    docs: 'endpoint',
    change: {
      rule: 'own rule',
      edits: {
        oneWay: [
          [undefined, 'in', 'slug-changed safe'],
          ['in', 'IN', 'slug-changed safe'],
          ['in', 'out', 'slug-changed caution'],
          ['in', undefined, 'slug-changed caution'],
        ],
      },
    },
  }),
};

export const endpointFields = {
  webhookEnforcementMode: field({
    schema: anyCase(ENFORCEMENT_MODES).describe('Mode of this trigger only, instead of SLUICE_ENFORCEMENT_MODE.'),
    holds: 'value',
    decides: ['mode'],
    readBy: 'every scheme',
    docs: 'endpoint',
    change: {
      rule: mode,
      edits: {
        ladders: [
          ['Enforce', 'Audit', 'Off'],
          ['Enforce', 'Audit', undefined],
        ],
        oneWay: [
          // Stays `Off` if the service becomes stricter.
          [undefined, 'Off', 'weaker'],
          ['Off', undefined, 'same'],
        ],
      },
    },
  }),
  webhookPublicUrl: field({
    schema: publicUrl.describe(
      'URL that the publisher calls, for schemes that sign it; env:NAME or file:PATH if it contains a password or a token.',
    ),
    holds: 'reference',
    decides: ['signature'],
    // Also the name of the called URL if the signature does not cover it.
    readBy: 'every scheme',
    docs: 'endpoint',
    change: {
      rule: () => verdict('other', 'If the scheme signs the URL, signatures are now checked against the new one.'),
      edits: otherwise('https://example.com/in', 'https://example.com/out'),
    },
    plain: 'https://example.com/',
  }),
  webhookDuplicateResponse: field({
    schema: anyCase(['conflict', 'acknowledge']).describe(
      'Answer to a delivery that was already accepted: conflict (409) or acknowledge (200 with the first run); conflict by default.',
    ),
    holds: 'value',
    decides: 'answer',
    readBy: 'every scheme',
    docs: 'endpoint',
    change: answerOnly([undefined, 'acknowledge'], ['conflict', 'acknowledge']),
  }),
};

export const responseFields = {
  webhookResponse: field({
    schema: response.describe('Answer to an accepted delivery, instead of the default answer of the scheme.'),
    holds: 'value',
    decides: 'answer',
    readBy: 'every scheme',
    docs: 'endpoint',
    change: answerOnly([undefined, { contentType: 'text/xml', body: '<a/>' }]),
  }),
};

type Mode = (typeof ENFORCEMENT_MODES)[number];

const MODES = {
  Off: 'Violations are recorded and accepted.',
  Audit: 'Violations are logged, recorded and accepted.',
  Enforce: 'Deliveries that fail a gate are refused.',
} as const;

function mode(before: Mode | undefined, after: Mode | undefined, { service }: Triggers<unknown>): FieldVerdict {
  if (after === 'Off' && before === undefined) {
    return verdict('weaker', `${MODES.Off} The mode of the service, which applied before, may be or become stricter.`);
  }
  const [one, other] = [before ?? service.enforcementMode, after ?? service.enforcementMode];
  const whose = after === undefined ? `The mode of the service applies, ${service.enforcementMode}. ` : '';
  // A lower rank accepts more.
  const effect = effectOf(-ENFORCEMENT_MODES.indexOf(one), -ENFORCEMENT_MODES.indexOf(other));
  return verdict(effect, `${whose}${MODES[other]}`);
}
