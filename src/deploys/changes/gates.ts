import { WEBHOOK_FIELDS, type WebhookInputs } from '../../manifest/webhook-inputs.ts';
import type { Finding } from '../../model/finding.ts';
import { isSame } from '../../model/json.ts';
import { DEFAULT_COMPONENTS, ENFORCEMENT_MODES } from '../../model/manifest.ts';
import { type ChangeRule, findingAt, jsonOf, type ServiceSettings, webhookPairs } from './change.ts';
import { learnsKey } from './secrets.ts';

const CLASSES = { weaker: 'caution', other: 'caution', stronger: 'safe', same: 'safe' } as const;
const RULES = {
  weaker: 'gate-weakened',
  other: 'gate-changed',
  stronger: 'gate-strengthened',
  same: 'webhook-answer-changed',
} as const;

/**
 * Every field of a webhook trigger that has no rule of its own: who gets in, and what is answered. No run in flight reads
 * any of them.
 */
export const gatesChanged: ChangeRule = (change) =>
  webhookPairs(change).flatMap(({ key, before, after }) =>
    fieldsOf(before, after).map(([field, effectOn]): Finding => {
      const { effect, consequence, addresses } = effectOn(before, after, change.settings);
      return findingAt(['triggers', key, 'inputs', field], {
        rule: RULES[effect],
        class: CLASSES[effect],
        before: jsonOf(before[field]),
        after: jsonOf(after[field]),
        message:
          addresses === undefined
            ? `${field} of \`${key}\` ${verbOf(before[field], after[field])}.`
            : `The address gate of \`${key}\` accepts ${addresses}.`,
        consequence: `${consequence} Runs in flight are not affected.`,
        ...(effect === 'weaker' || effect === 'other'
          ? { advice: 'Check that this is intended: it decides who may start runs.' }
          : {}),
      });
    }),
  );

/** The fields that differ. A snapshot of another release may have some that this one does not know. */
function fieldsOf(before: WebhookInputs, after: WebhookInputs): [keyof WebhookInputs, FieldRule][] {
  const fields = new Set([...WEBHOOK_FIELDS.all, ...Object.keys(before), ...Object.keys(after)]);
  return [...fields].filter(isField).flatMap((field): [keyof WebhookInputs, FieldRule][] => {
    const rule = FIELD_RULES[field] ?? unknownField;
    return rule === 'own rule' || isSame(jsonOf(before[field]), jsonOf(after[field])) ? [] : [[field, rule]];
  });
}

function isField(field: string): field is keyof WebhookInputs {
  return /^webhook/.test(field);
}

function verbOf(before: unknown, after: unknown): string {
  if (before === undefined) return 'is new';
  return after === undefined ? 'was removed' : 'changed';
}

/** What another value of a field does to who gets in; `same` for what only changes an answer, or nothing. */
interface FieldVerdict {
  readonly effect: 'weaker' | 'stronger' | 'other' | 'same';
  readonly consequence: string;
  /** Of a field that lists addresses: which the gate accepts. */
  readonly addresses?: string;
}

/** Compares what is in force before and after: where a trigger leaves a field out, that is what the service sets. */
type FieldRule = (before: WebhookInputs, after: WebhookInputs, service: ServiceSettings) => FieldVerdict;

const verdict = (effect: FieldVerdict['effect'], consequence: string): FieldVerdict => ({ effect, consequence });

/** Compares how much passes. */
function effectOf(before: number, after: number): 'weaker' | 'stronger' | 'same' {
  if (after === before) return 'same';
  return after > before ? 'weaker' : 'stronger';
}

const unknownField: FieldRule = () => verdict('other', 'After the deploy, different deliveries may pass.');

const otherSignature: FieldRule = () =>
  verdict('other', 'Signatures are read differently: deliveries that passed may be refused, and others may pass.');

const answer: FieldRule = () => verdict('same', 'Only the answer changes, not who gets in.');

interface Flag {
  /** What `true` does to who gets in. */
  readonly whenTrue: 'weaker' | 'stronger';
  readonly on: string;
  readonly off: string;
  /** What counts where the trigger leaves the field out; `false` by default. */
  readonly ofService?: (service: ServiceSettings) => boolean | undefined;
}

function flag(
  field:
    | 'webhookAllowSha1'
    | 'webhookSandbox'
    | 'webhookRequireTimestamp'
    | 'webhookRateLimitPerIp'
    | 'webhookAcceptMultipleSignatures',
  { whenTrue, on, off, ofService = () => false }: Flag,
): FieldRule {
  return (before, after, service) => {
    const byDefault = ofService(service) ?? false;
    const [one, other] = [before[field] ?? byDefault, after[field] ?? byDefault];
    if (one === other) return verdict('same', `${byDefault} is the default.`);
    if (other) return verdict(whenTrue, on);
    return verdict(whenTrue === 'weaker' ? 'stronger' : 'weaker', off);
  };
}

function scheme({ webhookSignatureScheme: before }: WebhookInputs, { webhookSignatureScheme: after }: WebhookInputs) {
  if (after === undefined)
    return verdict('weaker', 'Signatures are no longer checked: anyone who knows the URL can start runs.');
  if (before === undefined) return verdict('stronger', 'Deliveries without a valid signature fail the gate.');
  if (before.trim().toLowerCase() === after.trim().toLowerCase()) {
    return verdict('same', 'It is the same scheme: names are case-insensitive.');
  }
  return verdict('other', 'Deliveries signed with the old scheme fail the gate; those signed with the new one pass.');
}

/** The first key that comes wins for good, so that a way in is open until then. */
function learnKey(before: WebhookInputs, after: WebhookInputs): FieldVerdict {
  if (learnsKey(before) === learnsKey(after)) return verdict('same', 'It has no effect while a key is configured.');
  if (learnsKey(after)) {
    return verdict(
      'weaker',
      'The trigger uses the key that it learned earlier, if there is one, or else the first one that a handshake sends, from any sender.',
    );
  }
  return (after.webhookHmacKey ?? after.webhookSecret)
    ? verdict('stronger', 'The configured key is used, not a learned one.')
    : verdict(
        'other',
        'No key is learned, and a learned one is no longer used: every delivery fails the signature gate. Enforce refuses them; Off and Audit accept them.',
      );
}

const MODES = {
  Off: 'Violations are recorded and accepted.',
  Audit: 'Violations are logged, recorded and accepted.',
  Enforce: 'Deliveries that fail a gate are refused.',
} as const;

function mode(
  { webhookEnforcementMode: before }: WebhookInputs,
  { webhookEnforcementMode: after }: WebhookInputs,
  { enforcementMode: service }: ServiceSettings,
): FieldVerdict {
  if (after === 'Off' && before === undefined) {
    return verdict('weaker', `${MODES.Off} The mode of the service, which applied before, may be or become stricter.`);
  }
  const [one, other] = [before ?? service, after ?? service];
  const meaning = `${after === undefined ? `The mode of the service applies, ${service}. ` : ''}${MODES[other]}`;
  // A lower rank lets more pass.
  return verdict(effectOf(-ENFORCEMENT_MODES.indexOf(one), -ENFORCEMENT_MODES.indexOf(other)), meaning);
}

const AGES = {
  weaker:
    'Older deliveries pass; one that was accepted long ago, and whose nonce has since expired, could be replayed.',
  stronger: 'Older deliveries fail the gate.',
  same: 'Deliveries of the same age pass.',
} as const;

function tolerance(
  { webhookReplayToleranceSeconds: before }: WebhookInputs,
  { webhookReplayToleranceSeconds: after }: WebhookInputs,
  { replayToleranceSeconds: service }: ServiceSettings,
): FieldVerdict {
  if (after === 0 && before !== 0) return verdict('weaker', 'The age of a delivery is not checked.');
  const oldest = (seconds: number) => (seconds === 0 ? Number.POSITIVE_INFINITY : seconds);
  const effect = effectOf(oldest(before ?? service), oldest(after ?? service));
  const whose = after === undefined ? 'The tolerance of the service applies, if it sets one. ' : '';
  return verdict(effect, `${whose}${AGES[effect]}`);
}

function nonceHeader(before: WebhookInputs, after: WebhookInputs, service: ServiceSettings): FieldVerdict {
  const [one, other] = [before.webhookNonceHeader, after.webhookNonceHeader];
  if (one?.toLowerCase() === other?.toLowerCase()) return verdict('same', 'Header names are case-insensitive.');
  if (one === undefined) {
    const hasNonces = (before.webhookReplayToleranceSeconds ?? service.replayToleranceSeconds) > 0;
    if (!hasNonces) return verdict('stronger', 'This header identifies deliveries; a repeated value is a replay.');
    return verdict(
      'weaker',
      'This header identifies deliveries, not a hash of their signed content: a delivery that is accepted from now on could ' +
        'be replayed with other values of a header that its scheme does not sign.',
    );
  }
  return verdict(
    'weaker',
    other === undefined
      ? 'A hash identifies deliveries if a tolerance is set; otherwise nothing does, and replays may pass.'
      : 'Another header identifies deliveries; what was accepted so far is still known by a hash of its signed content.',
  );
}

interface Limit {
  readonly rate: number | undefined;
  readonly burst: number | undefined;
}

function compareLimits(before: Limit, after: Limit): 'weaker' | 'stronger' | 'same' {
  // Without a rate everything passes; without a burst as many at once as the rate rounded up.
  const of = ({ rate = Number.POSITIVE_INFINITY, burst = Math.ceil(rate) }: Limit) => ({ rate, burst });
  const [one, other] = [of(before), of(after)];
  if (other.rate > one.rate || other.burst > one.burst) return 'weaker';
  return effectOf(one.rate + one.burst, other.rate + other.burst);
}

const PASSING = {
  weaker: 'More deliveries pass.',
  stronger: 'Fewer deliveries pass, and the count restarts.',
  same: 'As many deliveries pass as before.',
} as const;

/** The rate and the burst are one limit, and each may come from the service. */
function limit(before: WebhookInputs, after: WebhookInputs, service: ServiceSettings): FieldVerdict {
  const of = (inputs: WebhookInputs): Limit => ({
    rate: inputs.webhookRateLimitPermitsPerSecond ?? service.rateLimitPermitsPerSecond,
    burst: inputs.webhookRateLimitBurstSize ?? service.rateLimitBurstSize,
  });
  if (of(after).rate === undefined) return verdict('weaker', 'Neither the trigger nor the service has a limit.');
  const effect = compareLimits(of(before), of(after));
  return verdict(effect, PASSING[effect]);
}

/** With or without it, the trigger's own limit counts other deliveries. */
function unverifiedLimit(before: WebhookInputs, after: WebhookInputs): FieldVerdict {
  const of = (inputs: WebhookInputs): Limit => ({
    rate: inputs.webhookRateLimitUnverifiedPermitsPerSecond,
    burst: inputs.webhookRateLimitUnverifiedBurstSize,
  });
  if (of(after).rate === undefined) {
    return verdict(
      'other',
      'Each delivery counts for the limit of the trigger again, before its signature is checked.',
    );
  }
  if (of(before).rate === undefined) {
    return verdict(
      'other',
      'Each address has a limit before the signature check; the limit of the trigger counts only verified deliveries.',
    );
  }
  const effect = compareLimits(of(before), of(after));
  return verdict(effect, `${PASSING[effect]} It counts those of each address that reach the signature check.`);
}

/** A field that asks for something of what is signed. */
function demand(
  field: 'webhookJwtIssuer' | 'webhookJwtAudience' | 'webhookJwtBodyHashClaim' | 'webhookSignatureKeyId',
  any: string,
): FieldRule {
  return (before, after) => {
    if (after[field] === undefined) return verdict('weaker', `Deliveries ${any} pass.`);
    if (before[field] === undefined)
      return verdict('stronger', 'Deliveries without it, or with another value, fail the gate.');
    return verdict('other', 'Deliveries with the old value fail the gate; those with the new one pass.');
  };
}

function components(
  { webhookRequiredComponents: before = DEFAULT_COMPONENTS }: WebhookInputs,
  { webhookRequiredComponents: after = DEFAULT_COMPONENTS }: WebhookInputs,
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

function versions(
  { webhookAcceptedVersions: before }: WebhookInputs,
  { webhookAcceptedVersions: after }: WebhookInputs,
): FieldVerdict {
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

function furtherHeaders(
  { webhookFurtherSignatureHeaders: before = [] }: WebhookInputs,
  { webhookFurtherSignatureHeaders: after = [] }: WebhookInputs,
): FieldVerdict {
  const isIn = (names: readonly string[]) => (name: string) => names.map(normal).includes(normal(name));
  if (!after.every(isIn(before))) return verdict('weaker', 'Signatures in more headers are read.');
  return before.every(isIn(after))
    ? verdict('same', 'They are the same headers.')
    : verdict('stronger', 'Signatures in fewer headers are read.');
}

function bodySchema({ webhookBodySchema: before }: WebhookInputs, { webhookBodySchema: after }: WebhookInputs) {
  if (after === undefined) return verdict('weaker', 'Bodies of any structure pass.');
  if (before === undefined) return verdict('stronger', 'Bodies that do not match the schema fail the gate.');
  return verdict('other', 'Bodies that matched the old schema may be refused, and others may pass.');
}

function expectation(_: WebhookInputs, { webhookExpectEvery: after }: WebhookInputs): FieldVerdict {
  if (after === undefined) return verdict('same', 'A silence needs attention once it is longer than is usual.');
  if (after.toLowerCase() === 'off') return verdict('same', 'No silence of the trigger needs attention any more.');
  return verdict('same', `A silence of more than ${after} needs attention, unless the mode is Off.`);
}

function filter({ webhookWhen: before }: WebhookInputs, { webhookWhen: after }: WebhookInputs): FieldVerdict {
  if (after === undefined) return verdict('same', 'Every accepted delivery starts a run.');
  const others = before === undefined ? 'Until now every accepted delivery started one.' : 'Others may than before.';
  return verdict('same', `Only deliveries for which it is true start a run. ${others}`);
}

function eventId(_before: WebhookInputs, { webhookEventId: after }: WebhookInputs): FieldVerdict {
  if (after === undefined) return verdict('same', 'The id that the scheme signs names the event, if it has one.');
  if (after.trim().toLowerCase() === 'off') {
    return verdict('same', 'No delivery counts as a repetition of an event: each that is accepted starts a run.');
  }
  return verdict('same', 'Its value names the event from now on: a repetition of one that came before starts a run.');
}

const publicUrl: FieldRule = () =>
  verdict('other', 'If the scheme signs the URL, signatures are now checked against the new one.');

/** Who may deliver by address: the sources of the allow list are one list, as the gate reads them. */
function allowList(before: WebhookInputs, after: WebhookInputs): FieldVerdict {
  const one = allowEntries(before);
  const other = allowEntries(after);
  const added = [...other].filter((entry) => !one.has(entry));
  if (one.size > 0 && other.size === 0) return moreAddresses('Every address may deliver.');
  if (one.size > 0 && added.length > 0) return moreAddresses(`These may deliver too: ${added.join(', ')}.`);
  const removed = [...one].filter((entry) => !other.has(entry));
  return noMoreAddresses(one.size === 0 ? 'Only the addresses of the list may deliver.' : gone(removed));
}

function denyList({ webhookIpDenyList: one = [] }: WebhookInputs, { webhookIpDenyList: other = [] }: WebhookInputs) {
  const freed = one.filter((entry) => !other.map(normal).includes(normal(entry)));
  return freed.length > 0
    ? moreAddresses(`These are no longer refused: ${freed.join(', ')}.`)
    : noMoreAddresses('No address that was refused before may deliver now.');
}

function moreAddresses(which: string): FieldVerdict {
  const consequence = `${which} Entries are compared as written, so a range inside another one counts as new.`;
  return { effect: 'weaker', consequence, addresses: 'more addresses' };
}

function noMoreAddresses(consequence: string): FieldVerdict {
  return { effect: 'stronger', consequence, addresses: 'no address that it refused before' };
}

function gone(removed: readonly string[]): string {
  return removed.length === 0
    ? 'The list means the same as before.'
    : `These may no longer deliver: ${removed.join(', ')}.`;
}

function allowEntries(inputs: WebhookInputs): Set<string> {
  const preset = inputs.webhookIpAllowListPreset === undefined ? [] : [inputs.webhookIpAllowListPreset];
  const presets = [...preset, ...(inputs.webhookIpAllowListPresets ?? [])].map((name) => `preset ${normal(name)}`);
  return new Set([...(inputs.webhookIpAllowList ?? []).map(normal), ...presets]);
}

function normal(entry: string): string {
  return entry.trim().toLowerCase();
}

/** Every field of a webhook trigger. A new one has to say what its values do to who gets in, or have a rule of its own. */
const FIELD_RULES: { readonly [Field in keyof WebhookInputs]-?: FieldRule | 'own rule' } = {
  webhookSlug: 'own rule',
  webhookHmacKey: 'own rule',
  webhookHmacKeyPrevious: 'own rule',
  webhookSecret: 'own rule',
  webhookSecretPrevious: 'own rule',
  webhookVerifyToken: 'own rule',
  webhookIpAllowList: allowList,
  webhookIpDenyList: denyList,
  webhookIpAllowListPreset: allowList,
  webhookIpAllowListPresets: allowList,
  webhookSignatureScheme: scheme,
  webhookLearnKey: learnKey,
  webhookAllowSha1: flag('webhookAllowSha1', {
    whenTrue: 'weaker',
    on: 'Signatures made with SHA-1 pass, even if SHA-1 is turned off for the service.',
    off: 'Signatures made with SHA-1 pass only if SHA-1 is turned on for the service.',
  }),
  webhookSandbox: flag('webhookSandbox', {
    whenTrue: 'weaker',
    on: 'Deliveries of the publisher’s test system pass too.',
    off: 'Deliveries of the publisher’s test system fail the gate.',
  }),
  webhookEnforcementMode: mode,
  webhookReplayToleranceSeconds: tolerance,
  webhookNonceHeader: nonceHeader,
  webhookRequireTimestamp: flag('webhookRequireTimestamp', {
    whenTrue: 'stronger',
    on: 'Deliveries without a timestamp fail the gate.',
    off: 'Deliveries without a timestamp pass if the scheme does not sign one.',
  }),
  webhookRateLimitPermitsPerSecond: limit,
  webhookRateLimitBurstSize: limit,
  webhookRateLimitPerIp: flag('webhookRateLimitPerIp', {
    whenTrue: 'weaker',
    on: 'Each address has its own limit: there is no limit for all of them together.',
    off: 'One limit applies to all addresses.',
    ofService: ({ rateLimitPerIp }) => rateLimitPerIp,
  }),
  webhookRateLimitUnverifiedPermitsPerSecond: unverifiedLimit,
  webhookRateLimitUnverifiedBurstSize: unverifiedLimit,
  webhookAcceptMultipleSignatures: flag('webhookAcceptMultipleSignatures', {
    whenTrue: 'weaker',
    on: 'Every signature that a delivery carries is tried.',
    off: 'One signature of a delivery is tried.',
  }),
  webhookAcceptedVersions: versions,
  webhookPublicUrl: publicUrl,
  webhookBodySchema: bodySchema,
  webhookDuplicateResponse: answer,
  webhookRespond: answer,
  webhookResponse: answer,
  webhookWhen: filter,
  webhookEventId: eventId,
  webhookEventIdDays: () =>
    verdict(
      'same',
      'It holds for events that come after the deploy; those before are known for as long as was said then.',
    ),
  webhookShared: (_, { webhookShared }) =>
    webhookShared === true
      ? verdict(
          'same',
          'Flows whose trigger says so too, and has the same gates, may get the deliveries of its slug as well.',
        )
      : verdict('same', 'No other flow gets the deliveries of its slug.'),
  webhookExpectEvery: expectation,
  webhookHoldDeliveries: () => verdict('same', 'It matters while the flow is disabled or drained.'),
  webhookSignatureHeader: otherSignature,
  webhookFurtherSignatureHeaders: furtherHeaders,
  webhookSignatureForm: otherSignature,
  webhookKeyEncoding: otherSignature,
  webhookSignedPayload: otherSignature,
  webhookTimestampField: otherSignature,
  webhookTimestampUnit: otherSignature,
  webhookDeliveryIdHeader: otherSignature,
  webhookSignatureAlgorithm: otherSignature,
  webhookSignatureEncoding: otherSignature,
  webhookSignaturePrefix: otherSignature,
  webhookSignatureMultiValueDelimiter: otherSignature,
  webhookSignatureKeyValueSeparator: otherSignature,
  webhookSignatureValueKey: otherSignature,
  webhookHeaderValuePrefix: otherSignature,
  webhookSignedPayloadStrategy: otherSignature,
  webhookSignedPayloadDelimiter: otherSignature,
  webhookSignedPayloadVersion: otherSignature,
  webhookCustomStrategyName: otherSignature,
  webhookTimestampHeader: otherSignature,
  webhookTimestampValueKey: otherSignature,
  webhookJwksUrl: () =>
    verdict('other', 'Signatures are verified with the keys at another URL, or with those of the trigger.'),
  webhookJwtIssuer: demand('webhookJwtIssuer', 'of any issuer that a key of the trigger signs for'),
  webhookJwtAudience: demand('webhookJwtAudience', 'for any audience'),
  webhookJwtBodyHashClaim: demand('webhookJwtBodyHashClaim', 'with any body'),
  webhookSignatureKeyId: demand('webhookSignatureKeyId', 'signed under any key id'),
  webhookRequiredComponents: components,
};
