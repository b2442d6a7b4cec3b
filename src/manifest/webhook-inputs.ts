import { z } from 'zod';
import type { JsonPath } from '../expressions/json-path.ts';
import { DAY_MS, MINUTE_MS } from '../model/clock.ts';
import { HEADER_NAME } from '../model/delivery.ts';
import { durationMs } from '../model/duration.ts';
import { INERT_TYPES, inertType } from '../model/inert-content.ts';
import type { JsonObject } from '../model/json.ts';
import { ENFORCEMENT_MODES, GUID, SIGNATURE_CHOICES } from '../model/manifest.ts';
import { type BodySchema, compileBodySchema, parseBodySchema } from './body-schema.ts';
import type { Coalesce } from './coalesce.ts';
import { errorAt, gateWarningAt, type Problem, plainTextSecret, warningAt } from './issues.ts';
import { isMasked, MASK, maskUrl } from './mask.ts';
import { isReference, resolveSecret, type SecretReader } from './read-secret.ts';
import type { Reconcile } from './reconcile.ts';

const SLUG = /^[A-Za-z0-9][A-Za-z0-9._~-]{0,127}$/;
const MEDIA_TYPE = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+( *;[\t\x20-\x7e]*)?$/;

/** A closed list whose values are read in any case. */
export function anyCase<const Values extends readonly string[]>(
  values: Values,
  error?: (input: unknown) => string | undefined,
) {
  const canonical = (given: unknown) =>
    typeof given === 'string' ? (values.find((value) => value.toLowerCase() === given.toLowerCase()) ?? given) : given;
  return z.preprocess(canonical, z.enum(values, { error: (issue) => error?.(issue.input) }));
}

const text = z.string().min(1);
const header = text.regex(HEADER_NAME, { error: 'is not a header name' });

const slug = z
  .string()
  .regex(SLUG, {
    error: 'is not a slug; 1 to 128 letters, digits, ".", "_", "~" and "-" are accepted, a letter or digit first',
  })
  .refine((given) => !GUID.test(given), { error: 'looks like a GUID, which only a flow id may' });

const listEntry = z.string().trim().min(1, { error: 'is an empty entry' });
// An empty list is refused: a reader should not have to guess whether it lets no address in or every one.
const textList = z.union([
  z.array(listEntry).min(1),
  z
    .string()
    .transform((given) => given.split(','))
    .pipe(z.array(listEntry)),
]);

const publicUrl = z.string().refine((given) => isHttpUrl(given) || /^(env|file):/i.test(given), {
  error:
    'is not an absolute http or https URL, such as https://hooks.example.com/flows/api/webhook/orders, and not env:NAME or file:PATH',
});

const keySetUrl = z.string().refine((given) => isKeySetUrl(given), {
  error:
    'is not an absolute https URL without user and fragment, such as https://publisher.example/.well-known/jwks.json',
});

const COMPONENT = /^(?:@?[a-z0-9*_.-]+)(?:;[a-z]+(?:="[\x20\x21\x23-\x5b\x5d-\x7e]*")?)*$/;

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

const respond = z.strictObject({
  step: text.describe('Key of the step whose output is the answer.'),
  withinSeconds: z
    .number()
    .min(0.1)
    .max(25)
    .optional()
    .describe('How long the publisher waits for it, from the arrival of the delivery; 2.5 by default.'),
});

const fields = {
  webhookSlug: slug.describe('Last segment of the URL that publishers call; any case.'),
  webhookHmacKey: z
    .string()
    .describe(
      'Current HMAC key, or the public key, token or name that the scheme needs instead: env:NAME, file:PATH, or plain text.',
    ),
  webhookHmacKeyPrevious: z.string().describe('Previous HMAC key, also accepted while a key is rotated.'),
  webhookSecret: z.string().describe('Legacy name of webhookHmacKey.'),
  webhookSecretPrevious: z.string().describe('Legacy name of webhookHmacKeyPrevious.'),
  webhookLearnKey: z
    .boolean()
    .describe('If there is no key, stores the first one that the publisher sends in a handshake; false by default.'),
  webhookSignatureScheme: text.describe('Name of a signature scheme, any case; `sluice schemes` lists them.'),
  webhookAllowSha1: z
    .boolean()
    .describe('Allows a scheme that signs with SHA-1, for this trigger only; false by default.'),
  webhookSandbox: z
    .boolean()
    .describe('Certificates of the test system of a publisher such as PayPal count too; false by default.'),

  webhookVerifyToken: z
    .string()
    .describe('Token that a publisher such as Meta sends in its handshake: env:NAME, file:PATH, or plain text.'),

  webhookSignatureHeader: header.describe(
    'Schemes Custom, Token and Jwt: header that carries the signature, or the token; Authorization by default for Token and Jwt.',
  ),
  webhookFurtherSignatureHeaders: z
    .array(header)
    .min(1)
    .max(10)
    .describe('Custom scheme: other headers with signatures, for example by another key; any of them may match.'),
  webhookSignatureForm: text.describe(
    'Custom scheme: what the header looks like, such as `sha256={signature}` or `t={timestamp},v1={signature},...`, where `...` accepts several signatures; instead of the fields for prefix, delimiter, separator and keys.',
  ),
  webhookSignatureAlgorithm: anyCase([...SIGNATURE_CHOICES.algorithms, ...SIGNATURE_CHOICES.keyPairs]).describe(
    'Custom scheme: hash of the HMAC, or the algorithm of a key pair whose public key is webhookHmacKey (PEM or JWK); sha256 by default.',
  ),
  webhookSignatureEncoding: anyCase(SIGNATURE_CHOICES.encodings).describe(
    'Custom scheme: encoding of the signature; hexLower by default.',
  ),
  webhookKeyEncoding: anyCase(SIGNATURE_CHOICES.keyEncodings).describe(
    'Schemes Custom, Jwt and HttpMessageSignatures: what the text of the key, or of a secret, stands for; utf8 (the text itself) by default.',
  ),
  webhookSignaturePrefix: z.string().describe('Custom scheme: text before the digest.'),
  webhookSignatureMultiValueDelimiter: text.describe('Custom scheme: separator of the segments of the header.'),
  webhookSignatureKeyValueSeparator: text.describe('Custom scheme: separator inside a segment; "=" by default.'),
  webhookSignatureValueKey: text.describe('Custom scheme: key of the segment that holds the signature.'),
  webhookHeaderValuePrefix: z
    .string()
    .describe(
      'Schemes Custom, Token and Jwt: text before the whole header value; for Token and Jwt, "Bearer " by default if no header is named.',
    ),
  webhookAcceptMultipleSignatures: z
    .boolean()
    .describe('Custom scheme: whether any of several matching segments may hold the signature.'),
  webhookAcceptedVersions: z.array(text).min(1).describe('Custom scheme: keys of the segments that are read.'),
  webhookSignedPayload: text.describe(
    'Custom scheme: what the signature covers, such as `{timestamp}.{body}`; instead of webhookSignedPayloadStrategy.',
  ),
  webhookSignedPayloadStrategy: anyCase(SIGNATURE_CHOICES.strategies).describe(
    'Custom scheme: what the signature covers; RawBody by default.',
  ),
  webhookSignedPayloadDelimiter: z.string().describe('Custom scheme: delimiter between timestamp and body.'),
  webhookSignedPayloadVersion: z.string().describe('Custom scheme: version literal of ColonDelimited.'),
  webhookCustomStrategyName: text.describe('Name of a registered payload strategy, for strategy Custom.'),

  webhookDeliveryIdHeader: header.describe('Custom scheme: header of the delivery’s id, which `{id}` stands for.'),
  webhookTimestampHeader: header.describe('Header that carries the publisher’s timestamp.'),
  webhookTimestampField: text.describe('Custom scheme: path of the timestamp in the body, with dots between names.'),
  webhookTimestampUnit: anyCase(SIGNATURE_CHOICES.timestampUnits).describe(
    'Custom scheme: how the signed time is written; seconds or milliseconds, by its size, by default.',
  ),
  webhookTimestampValueKey: text.describe('Key of the segment that holds the timestamp.'),
  webhookRequireTimestamp: z.boolean().describe('Whether a delivery without a timestamp fails; false by default.'),

  webhookJwksUrl: keySetUrl.describe(
    'Schemes Jwt and HttpMessageSignatures: https URL of the publisher’s public keys (JWKS), instead of webhookHmacKey.',
  ),
  webhookJwtIssuer: text.describe('Scheme Jwt: what the claim "iss" has to be.'),
  webhookJwtAudience: text.describe('Scheme Jwt: what the claim "aud" has to be, or to contain.'),
  webhookJwtBodyHashClaim: text.describe(
    'Scheme Jwt: claim that holds a hash of the body, in hex or base64; without it the body is not signed.',
  ),
  webhookRequiredComponents: z
    .array(text.regex(COMPONENT, { error: 'is not a component, such as "@method" or "content-digest"' }))
    .min(1)
    .describe(
      'Scheme HttpMessageSignatures: what a signature has to cover; "@method", "@path" and "content-digest" by default.',
    ),
  webhookSignatureKeyId: text.describe('Scheme HttpMessageSignatures: the only keyid whose signatures count.'),

  webhookReplayToleranceSeconds: z
    .int()
    .min(0)
    .describe('How far the timestamp may differ from the clock, in seconds; 0 turns the check off.'),
  webhookNonceHeader: header.describe(
    'Header with the delivery’s id; without it, a hash of the signed content identifies the delivery.',
  ),
  webhookRateLimitPermitsPerSecond: z.number().positive().describe('Deliveries a second.'),
  webhookRateLimitBurstSize: z
    .number()
    .min(1)
    .describe('Deliveries that may arrive at once; the rate rounded up by default.'),
  webhookRateLimitPerIp: z.boolean().describe('Whether each client address has its own limit.'),
  webhookRateLimitUnverifiedPermitsPerSecond: z
    .number()
    .positive()
    .describe(
      'Deliveries per second from each client address (each /64 for IPv6) that reach the signature check. The other limit then counts only verified deliveries.',
    ),
  webhookRateLimitUnverifiedBurstSize: z
    .number()
    .min(1)
    .describe('Deliveries of one address that may arrive at once; that rate rounded up by default.'),
  webhookIpAllowList: textList.describe('CIDRs, ranges, wildcards and addresses that may deliver.'),
  webhookIpDenyList: textList.describe('CIDRs, ranges, wildcards and addresses that may not deliver.'),
  webhookIpAllowListPreset: text.describe('Name of one list of a publisher’s addresses.'),
  webhookIpAllowListPresets: textList.describe('Names of lists of publishers’ addresses.'),

  webhookBodySchema: z
    .union(
      [z.looseObject({}), z.string().regex(/^file:./i, { error: 'is not a JSON Schema, and not file:PATH of one' })],
      {
        error: 'is not a JSON Schema: an object, or file:PATH of one',
      },
    )
    .describe('JSON Schema (2020-12 or draft 07) of the body: the schema itself, or file:PATH.'),
  webhookEnforcementMode: anyCase(ENFORCEMENT_MODES).describe(
    'Mode of this trigger only, instead of SLUICE_ENFORCEMENT_MODE.',
  ),
  webhookPublicUrl: publicUrl.describe(
    'URL that the publisher calls, for schemes that sign it; env:NAME or file:PATH if it contains a password or a token.',
  ),
  webhookDuplicateResponse: anyCase(['conflict', 'acknowledge']).describe(
    'Answer to a delivery that was already accepted: conflict (409) or acknowledge (200 with the first run); conflict by default.',
  ),
  webhookWhen: text.describe(
    'CEL condition over body and headers: where it is false, the answer is 200 and no run starts.',
  ),
  webhookEventId: text.describe(
    'CEL expression over body and headers that names the event: a second delivery of it starts no run; by default the id of the scheme, where the publisher signs one, and none if "off".',
  ),
  webhookEventIdDays: z.int().min(1).max(3650).describe('For how many days an event is known; 30 by default.'),
  webhookShared: z
    .boolean()
    .describe(
      'Whether triggers of other flows that say so too, with the same gates, get the deliveries of the slug as well; false by default.',
    ),
  webhookExpectEvery: text
    .refine(isExpectation, {
      error: 'is not an ISO 8601 duration from PT1M to P31D, such as PT2H or P1D, and not "off"',
    })
    .describe(
      'Longest usual time between two deliveries, as an ISO 8601 duration such as PT2H: a longer silence needs attention; learned by default, and not watched if "off" or in the mode Off.',
    ),
  webhookHoldDeliveries: z
    .boolean()
    .describe('Whether deliveries to a disabled or drained flow are kept and start their runs later.'),
  webhookRespond: respond.describe(
    'Step of the run that answers an accepted delivery: its output is status (200 to 299), headers and body.',
  ),
  webhookResponse: response.describe('Answer to an accepted delivery, instead of the default answer of the scheme.'),
};

export const webhookInputsSchema = z.strictObject(fields).partial();

/** The `webhook*` fields of a webhook trigger, in canonical spelling. */
export type WebhookInputs = ReadonlyFields<z.output<typeof webhookInputsSchema>>;

type ReadonlyFields<Fields> = {
  readonly [Field in keyof Fields]: Fields[Field] extends string[] | undefined
    ? readonly string[] | undefined
    : Fields[Field];
};

/** A webhook trigger of a loaded flow, its secrets resolved. Never serialised. */
export interface WebhookTrigger {
  readonly flowId: string;
  readonly flowName: string;
  readonly triggerKey: string;
  readonly inputs: WebhookInputs;
  /** Resolved keys; an empty or missing key is undefined. */
  readonly keys: { readonly current: string | undefined; readonly previous: string | undefined };
  /** Resolved; an empty or missing one is undefined. */
  readonly verifyToken?: string | undefined;
  /** Compiled, or with an error if it cannot be used, in which case no body matches. Absent if the trigger has none. */
  readonly bodySchema?: BodySchema | { readonly error: string } | undefined;
  /** A legacy key field and its present name are both set; the present one won. */
  readonly hasConflictingKeys: boolean;
  /** Expressions by name; absent where the manifest names none. */
  readonly searchKeys?: Readonly<Record<string, string>> | undefined;
  /** Absent where each delivery has a run of its own. */
  readonly coalesce?: Coalesce | undefined;
  /** The publisher's own log, its secrets read; one that cannot be read is empty. Absent where none is asked. */
  readonly reconcile?: Reconcile | undefined;
}

const KEY_FIELDS = [
  'webhookHmacKey',
  'webhookHmacKeyPrevious',
  'webhookSecret',
  'webhookSecretPrevious',
] as const satisfies readonly (keyof WebhookInputs)[];

const SECRET_FIELDS = [...KEY_FIELDS, 'webhookVerifyToken'] as const satisfies readonly (keyof WebhookInputs)[];

export const WEBHOOK_FIELDS = {
  all: Object.keys(fields) as readonly string[],
  /** Fields that hold a secret. */
  secret: SECRET_FIELDS,
  /** Fields in which a reference to a secret is read. */
  reference: [...SECRET_FIELDS, 'webhookPublicUrl', 'webhookBodySchema'],
} as const;

function isKeySetUrl(given: string): boolean {
  if (!/^https:\/\//i.test(given) || !URL.canParse(given)) return false;
  const { username, password, hash } = new URL(given);
  return username === '' && password === '' && hash === '';
}

const [SHORTEST_MS, LONGEST_MS] = [MINUTE_MS, 31 * DAY_MS];

function isExpectation(given: string): boolean {
  if (given.toLowerCase() === 'off') return true;
  const ms = durationMs(given);
  return ms !== undefined && ms >= SHORTEST_MS && ms <= LONGEST_MS;
}

function isHttpUrl(given: string): boolean {
  return /^https?:\/\//i.test(given) && URL.canParse(given);
}

type SecretField = (typeof SECRET_FIELDS)[number];
type Secrets = Pick<WebhookTrigger, 'keys' | 'verifyToken' | 'hasConflictingKeys'>;

/**
 * The inputs of a webhook trigger and its secrets, with every reference that counts read. `files` are contents that were
 * read earlier and count for what they are now.
 */
export function resolveTrigger(
  written: WebhookInputs,
  path: JsonPath,
  { readSecret, files = {} }: { readonly readSecret: SecretReader; readonly files?: Readonly<Record<string, string>> },
): Secrets & Pick<WebhookTrigger, 'inputs' | 'bodySchema'> & { readonly problems: readonly Problem[] } {
  const secrets = resolveSecrets(written, path, readSecret);
  const { inputs, problems } = resolvePublicUrl(written, path, readSecret);
  const readFile: SecretReader = (file) =>
    Object.hasOwn(files, file) ? { value: files[file] ?? '' } : readSecret(file);
  const bodySchema = readBodySchema(written.webhookBodySchema, readFile);
  const refused = bodySchema !== undefined && 'error' in bodySchema ? [bodySchema.error] : [];
  const schemaProblems = refused.map((error) => errorAt([...path, 'webhookBodySchema'], error));
  return { ...secrets, inputs, bodySchema, problems: [...secrets.problems, ...problems, ...schemaProblems] };
}

/** The schema itself, or the one in the file that is named, as it is when the manifest is loaded. */
function readBodySchema(
  written: WebhookInputs['webhookBodySchema'],
  readSecret: SecretReader,
): WebhookTrigger['bodySchema'] {
  if (typeof written !== 'string') return written === undefined ? undefined : compileBodySchema(written as JsonObject);
  const file = readSecret(written);
  return 'error' in file ? file : parseBodySchema(file.value);
}

/** Reads the secrets of a webhook trigger. The present name of a key wins over its legacy name, whatever either holds. */
function resolveSecrets(
  inputs: WebhookInputs,
  path: JsonPath,
  readSecret: SecretReader,
): Secrets & { readonly problems: readonly Problem[] } {
  const problems: Problem[] = [];
  const values = new Map<SecretField, string>();
  for (const field of SECRET_FIELDS) {
    const text = inputs[field];
    if (text === undefined) continue;
    const fieldPath = [...path, field];
    const secret = resolveSecret(text, readSecret);
    if ('error' in secret) problems.push(errorAt(fieldPath, secret.error));
    else values.set(field, secret.value);
    if (text === MASK) problems.push(errorAt(fieldPath, 'is the mask shown in place of a secret, not a key'));
    else if (text === '') problems.push(warningAt(fieldPath, `is empty, which counts as no ${nounOf(field)}`));
    else if (!isReference(text)) problems.push(plainTextSecret(fieldPath));
  }
  let hasConflictingKeys = false;
  for (const [field, legacy] of KEY_NAMES) {
    if (inputs[field] === undefined || inputs[legacy] === undefined) continue;
    hasConflictingKeys = true;
    problems.push(warningAt([...path, legacy], `is ignored: "${field}" is also set and takes precedence`));
  }
  const keyOf = (field: SecretField, legacy: SecretField) =>
    (inputs[field] === undefined ? values.get(legacy) : values.get(field)) || undefined;
  const [[current, legacyCurrent], [previous, legacyPrevious]] = KEY_NAMES;
  const keys = { current: keyOf(current, legacyCurrent), previous: keyOf(previous, legacyPrevious) };
  const verifyToken = values.get('webhookVerifyToken') || undefined;
  return { keys, verifyToken, hasConflictingKeys, problems };
}

/** The public URL of a webhook trigger read: a reference resolved, a literal as it is. */
function resolvePublicUrl(
  inputs: WebhookInputs,
  path: JsonPath,
  readSecret: SecretReader,
): { readonly inputs: WebhookInputs; readonly problems: readonly Problem[] } {
  const { webhookPublicUrl: text } = inputs;
  if (text === undefined) return { inputs, problems: [] };
  const at = [...path, 'webhookPublicUrl'];
  if (isReference(text)) {
    const url = resolveSecret(text, readSecret);
    if ('error' in url) return { inputs, problems: [errorAt(at, url.error)] };
    if (isHttpUrl(url.value)) return { inputs: { ...inputs, webhookPublicUrl: url.value }, problems: [] };
    return { inputs, problems: [errorAt(at, 'refers to a value that is not an absolute http or https URL')] };
  }
  if (isMasked(text))
    return {
      inputs,
      problems: [errorAt(at, 'contains the mask shown in place of a secret: signatures over the URL do not verify')],
    };
  if (maskUrl(text) === text) return { inputs, problems: [] };
  const why =
    'contains user information, a query or a fragment in plain text, which is masked where the manifest is stored and ' +
    'shown; env:NAME or file:PATH keeps it out of the manifest and lets a stored revision work without the file';
  return { inputs, problems: [warningAt(at, why)] };
}

function nounOf(field: SecretField): string {
  return field === 'webhookVerifyToken' ? 'token' : 'key';
}

const KEY_NAMES = [
  ['webhookHmacKey', 'webhookSecret'],
  ['webhookHmacKeyPrevious', 'webhookSecretPrevious'],
] as const satisfies readonly (readonly [SecretField, SecretField])[];

/** Fields that need each other, and what looks like a gate but is none. */
export function checkGates(inputs: WebhookInputs, path: JsonPath): Problem[] {
  const problems: Problem[] = [];
  const at = (field: keyof WebhookInputs) => [...path, field];
  const { webhookSignatureScheme: scheme } = inputs;

  // What scheme Custom needs, the signature gate says itself when it is prepared.
  const isCustom = scheme?.trim().toLowerCase() === 'custom';
  const isUnnamed = inputs.webhookSignedPayloadStrategy === 'Custom' && inputs.webhookCustomStrategyName === undefined;
  if (!isCustom && isUnnamed) {
    problems.push(errorAt(at('webhookCustomStrategyName'), 'is missing; strategy Custom needs it'));
  }
  const keyField = KEY_FIELDS.find((field) => inputs[field] !== undefined);
  if (scheme === undefined && keyField !== undefined) {
    const reason = 'webhookSignatureScheme is not set: the signature gate is not configured';
    problems.push(gateWarningAt(at(keyField), `does not check signatures, because ${reason}`));
  }
  return problems;
}
