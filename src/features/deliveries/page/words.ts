import type { Api } from '../../../dashboard/web/api-types.ts';
import { format } from '../../../dashboard/web/format.ts';
import type { Look } from '../../../dashboard/web/looks.ts';
import { ownOf, spelledOut } from '../../../dashboard/web/spelling.ts';

/*
 * Names of the API in plain English. The compiler compares the API's closed lists with these: a new name there needs
 * words here. Pure, so that the words are tested without a browser.
 */

/** Texts for names of the API; `…Of` yield rows of a list, in the order of the given record. */
export const words = {
  reason,
  reasonMeaning,
  gate,
  outcome,
  factsOf,
  settingsOf,
  signatureOf,
};

type Reason = NonNullable<Api['Delivery']['reason']>;
type GateResult = Api['DeliveryDetail']['gateResults'][number];

interface ReasonWords {
  /** For lists and filters. */
  readonly label: string;
  /** For a reader who sees the label for the first time. */
  readonly meaning: string;
}

/** Every reason, in pipeline order. */
export const REASONS = {
  body_too_large: { label: 'Body too large', meaning: 'The body is larger than the limit.' },
  unknown_flow: { label: 'Unknown URL', meaning: 'No webhook has this URL.' },
  flow_unreadable: {
    label: 'Trigger not served',
    meaning: 'The trigger needs something that this service does not have, such as its signature scheme.',
  },
  flow_disabled: { label: 'Flow disabled', meaning: 'The flow was disabled or draining, or its trigger off.' },
  encoding_not_supported: {
    label: 'Encoding not known',
    meaning: 'The content-encoding or the charset of the body is not known.',
  },
  invalid_encoding: {
    label: 'Body not decodable',
    meaning: 'The body is not in the encoding that its content-encoding says.',
  },
  invalid_json: {
    label: 'Body is not JSON',
    meaning: 'The content type says JSON, but the body is not JSON.',
  },
  ip_not_allowed: {
    label: 'Address not on the allow list',
    meaning: 'The client’s address is not on the allow list.',
  },
  ip_denied: { label: 'Address on the deny list', meaning: 'The client’s address is on the deny list.' },
  unverified_rate_limited: {
    label: 'Rate limit per address exceeded',
    meaning: 'Too many deliveries arrived from one address in a short time.',
  },
  rate_limited: { label: 'Rate limit exceeded', meaning: 'Too many deliveries arrived in a short time.' },
  signature_missing: { label: 'Signature missing', meaning: 'The delivery has no signature.' },
  signature_malformed: {
    label: 'Signature malformed',
    meaning: 'The signature does not have the format of the scheme.',
  },
  signature_mismatch: {
    label: 'Signature does not match',
    meaning: 'The signature was made with another key or over other content.',
  },
  key_not_configured: { label: 'No key configured', meaning: 'The trigger has no key to verify with.' },
  sha1_not_allowed: { label: 'SHA-1 not allowed', meaning: 'The scheme needs SHA-1, which is turned off.' },
  verifier_error: { label: 'Check failed', meaning: 'The code of a verifier or gate failed.' },
  verification_unavailable: {
    label: 'Verification unavailable',
    meaning: 'A certificate or keys could not be fetched, or the body schema got no turn.',
  },
  timestamp_missing: { label: 'Timestamp missing', meaning: 'The delivery lacks the required timestamp.' },
  timestamp_malformed: { label: 'Timestamp malformed', meaning: 'The timestamp cannot be read.' },
  timestamp_skew: { label: 'Timestamp out of range', meaning: 'The timestamp is too old, or too far in the future.' },
  nonce_replayed: { label: 'Repeated delivery', meaning: 'The same delivery was accepted before.' },
  body_schema: {
    label: 'Body does not match the schema',
    meaning: 'The body does not match the JSON Schema of the trigger.',
  },
  idempotency_conflict: {
    label: 'Idempotency-Key of another body',
    meaning:
      'The Idempotency-Key was used before, with another body; its nonce was not kept, so with another key, or none, the same delivery is accepted.',
  },
  store_unavailable: { label: 'Not stored', meaning: 'The delivery could not be stored.' },
} as const satisfies Record<Reason, ReasonWords>;

/** `signature_mismatch` as "Signature does not match". */
function reason(name: string): string {
  return Object.hasOwn(REASONS, name) ? REASONS[name as Reason].label : spelledOut(name);
}

function reasonMeaning(name: Reason): string {
  return REASONS[name].meaning;
}

/** Names of the pipeline's parts. */
const GATES: Readonly<Record<string, string>> = {
  bodyCap: 'Body size',
  address: 'Address and flow',
  ip: 'IP lists',
  unverifiedRateLimit: 'Rate limit before the signature',
  rateLimit: 'Rate limit',
  signature: 'Signature',
  replay: 'Replay',
  bodySchema: 'Body schema',
  body: 'Body format',
  searchKeys: 'Search keys',
  webhookWhen: 'Filter',
  'coalesce.key': 'Shared run',
  webhookEventId: 'Event id',
};

/** An operator's own gate keeps its name. */
function gate(name: string): string {
  return ownOf(GATES, name) ?? name;
}

const OUTCOMES = {
  passed: 'passed',
  failed: 'failed',
  'not evaluated': 'not checked',
  'not configured': 'not configured',
} as const satisfies Record<GateResult['outcome'], string>;

function outcome(name: GateResult['outcome']): string {
  return OUTCOMES[name];
}

/** One line of a list: its name, label and text. */
interface LabelledText {
  readonly name: string;
  readonly label: string;
  readonly text: string;
}

/** A label, and the text of a value that cannot be shown unchanged; null leaves the line out. */
type Wording = readonly [label: string, textOf?: ((value: unknown) => string | null) | undefined];

const LAYOUTS = {
  RawBody: 'the body',
  TimestampDotBody: 'the timestamp and the body',
  ColonDelimited: 'the timestamp and the body, joined by colons',
  UrlPlusSortedForm: 'the URL and the sorted form fields',
  UrlPlusBody: 'the URL and the body',
  TimestampPlusToken: 'the timestamp and a token',
  Custom: 'what your own code builds',
} as const satisfies Record<Api['Layout'], string>;

const layout = (value: unknown) => ownOf<string>(LAYOUTS, plain(value)) ?? plain(value);

const ENCODINGS: Readonly<Record<string, string>> = { hexLower: 'hex', hexUpper: 'hex', base64Url: 'base64url' };

const encoding = (value: unknown) => ownOf(ENCODINGS, plain(value)) ?? plain(value);

/** Facts of the built-in gates; an operator's own gate can have others. */
const FACTS: Readonly<Record<string, Wording>> = {
  bodyBytes: ['Size', size],
  matchedEntry: ['Matching entry', (value) => (value === null ? 'none, and there is no allow list' : plain(value))],
  permitsLeft: ['Deliveries left', (value) => (typeof value === 'number' ? String(Math.floor(value)) : plain(value))],
  permitsPerSecond: ['Limit', (value) => `${plain(value)} per second`],
  burstSize: ['At once', (value) => `at most ${plain(value)}`],
  scheme: ['Scheme'],
  isVerified: ['Signature', (value) => (value === true ? 'valid' : 'not valid')],
  usedPreviousKey: ['Key', (value) => (value === true ? 'the previous one' : null)],
  signedBytesSha256: ['SHA-256 of the signed bytes'],
  signedTimestamp: ['Signed timestamp'],
  replaySkewMs: ['Difference from this clock', skew],
  timestamp: ['Timestamp'],
  nonce: ['Nonce'],
  nonceExpiresAt: ['Nonce kept until', time],
};

function factsOf(facts: Readonly<Record<string, unknown>>): LabelledText[] {
  return rowsOf(facts, FACTS);
}

const SETTINGS = {
  webhookIpAllowList: ['Allow list'],
  webhookIpDenyList: ['Deny list'],
  webhookIpAllowListPreset: ['Allowed publisher'],
  webhookIpAllowListPresets: ['Allowed publishers'],
  webhookRateLimitUnverifiedPermitsPerSecond: ['Limit of each address', (value) => `${plain(value)} per second`],
  webhookRateLimitUnverifiedBurstSize: ['At once', (value) => `at most ${plain(value)}`],
  webhookRateLimitPermitsPerSecond: ['Limit', (value) => `${plain(value)} per second`],
  webhookRateLimitBurstSize: ['At once', (value) => `at most ${plain(value)}`],
  webhookRateLimitPerIp: ['Counted for each client'],
  webhookSignatureScheme: ['Scheme'],
  webhookSignatureHeader: ['Header of the signature'],
  webhookSignatureAlgorithm: ['Algorithm'],
  webhookSignatureEncoding: ['Encoding', encoding],
  webhookSignaturePrefix: ['Prefix'],
  webhookSignedPayloadStrategy: ['What is signed', layout],
  webhookCustomStrategyName: ['Strategy in code'],
  webhookReplayToleranceSeconds: ['Tolerance', seconds],
  webhookNonceHeader: ['Header of the delivery id'],
  webhookTimestampHeader: ['Header of the timestamp'],
  webhookTimestampValueKey: ['Name of the timestamp'],
  webhookRequireTimestamp: ['Timestamp required'],
  webhookDuplicateResponse: ['Answer to a repeated delivery'],
} as const satisfies Record<Api['ConfiguredField'], Wording>;

function settingsOf(configured: Readonly<Record<string, unknown>>): LabelledText[] {
  return rowsOf(configured, SETTINGS);
}

/** The signed content of a signature and its comparison; `keys` and `signedBytes` contain further values. */
function signatureOf({ keys, signedBytes, ...signature }: Readonly<Record<string, unknown>>): LabelledText[] {
  return rowsOf({ ...signature, ...membersOf(signedBytes), ...membersOf(keys) }, SIGNATURE);
}

const SIGNATURE: Readonly<Record<string, Wording>> = {
  scheme: ['Scheme'],
  layout: ['What is signed', layout],
  algorithm: ['Algorithm'],
  encoding: ['Encoding', encoding],
  headers: ['Header'],
  candidates: ['Signatures found'],
  problem: ['Why the signed bytes cannot be built'],
  length: ['Length', size],
  sha256: ['SHA-256 of the signed bytes'],
  current: ['Current key'],
  previous: ['Previous key'],
};

function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}

function rowsOf(values: Readonly<Record<string, unknown>>, table: Readonly<Record<string, Wording>>): LabelledText[] {
  return Object.entries(values).flatMap(([name, value]) => {
    const [label, textOf = plain] = ownOf(table, name) ?? [spelledOut(name)];
    const text = textOf(value);
    return text === null ? [] : [{ name, label, text }];
  });
}

function plain(value: unknown): string {
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (value === null) return 'none';
  if (Array.isArray(value) && value.every((each) => typeof each === 'string')) return value.join(', ');
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function size(value: unknown): string {
  return typeof value === 'number' ? format.bytes(value) : plain(value);
}

function seconds(value: unknown): string {
  if (value === 0) return 'none: the age is not checked';
  return typeof value === 'number' ? format.duration(value * 1000) : plain(value);
}

function skew(value: unknown): string {
  if (typeof value !== 'number') return plain(value);
  if (value === 0) return 'none';
  return `${format.duration(Math.abs(value))} ${value > 0 ? 'behind' : 'ahead'}`;
}

function time(value: unknown): string {
  return typeof value === 'string' ? format.exactTime(Date.parse(value)) : plain(value);
}

type JudgedDelivery = Pick<Api['Delivery'], 'rejected' | 'statusCode' | 'reason' | 'outcome' | 'held'> &
  Partial<Pick<Api['Delivery'], 'edited'>>;

const FILTERED = 'Accepted; webhookWhen of its trigger is false for it, so no run started';
const JOINED = 'Accepted; it joined the run of another delivery';
const UNEVALUATED = 'Accepted, but an expression of its trigger could not be evaluated';
const ANSWERED = 'Accepted; it is for steps that wait, or will, and starts no run';
const GIVEN_UP = 'It never arrived, and could not be fetched from the log of its publisher';
const HELD = 'Accepted; its run starts once the flow is enabled or resumed';

/** The result of a delivery. One that failed a gate but was accepted anyway is neither good nor bad. */
export function deliveryLook({
  rejected,
  statusCode,
  reason,
  outcome,
  held,
  edited = false,
}: JudgedDelivery): Look & { readonly title?: string } {
  if (outcome === 'filtered') return { tone: 'quiet', icon: 'skip', text: 'Filtered', title: FILTERED };
  if (outcome === 'givenUp') return { tone: 'bad', icon: 'cross', text: 'Given up', title: GIVEN_UP };
  if (outcome === 'duplicate') {
    return { tone: 'quiet', icon: 'replay', text: 'Duplicate', title: 'Answered with the run of the first delivery' };
  }
  if (outcome === 'coalesced' && !held && !rejected) {
    return { tone: 'good', icon: 'check', text: 'Joined', title: JOINED };
  }
  if (edited) return { tone: 'warn', icon: 'replay', text: 'Edited', title: 'Sent by a person with an edited body' };
  if (outcome === 'answered' && !rejected) return { tone: 'good', icon: 'check', text: 'Answered', title: ANSWERED };
  if (held) return { tone: 'busy', icon: 'pause', text: 'Held', title: HELD };
  if (outcome === 'unevaluated') return { tone: 'warn', icon: 'warn', text: 'Accepted', title: UNEVALUATED };
  if (!rejected) return { tone: 'good', icon: 'check', text: 'Accepted' };
  const title = reason === null ? {} : { title: reasonMeaning(reason) };
  if (statusCode >= 400) return { tone: 'bad', icon: 'cross', text: 'Refused', ...title };
  return { tone: 'warn', icon: 'warn', text: 'Let in', ...title };
}
