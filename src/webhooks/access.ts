import { isDeepStrictEqual } from 'node:util';
import { formatPath, mapStrings } from '../expressions/json-path.ts';
import { meaningOf } from '../manifest/body-schema.ts';
import { isReference } from '../manifest/read-secret.ts';
import { reconcileSecrets } from '../manifest/secrets.ts';
import type { WebhookInputs, WebhookTrigger } from '../manifest/webhook-inputs.ts';
import type { Access } from '../model/finding.ts';
import type { Json } from '../model/json.ts';
import type { EnforcementMode } from '../model/manifest.ts';
import type { GateSettings } from './gate.ts';
import type { GatePreparer } from './gates/index.ts';
import { passingAddresses } from './gates/ip.ts';
import { countsPerIp, limitOf, type RateLimit, unverifiedLimitOf } from './gates/rate-limit.ts';
import { type ReplayRule, replayRule } from './gates/replay.ts';
import { allowsSha1, isRequired, type SignatureSettings, usesSha1 } from './gates/signature.ts';
import { keysInForce, learnsKey } from './keys-in-force.ts';
import { type AddressSet, includesAddresses } from './networks/addresses.ts';
import { hasPart } from './schemes/layout.ts';
import { resolveScheme } from './schemes/resolve.ts';
import type { SignatureSpec, SignatureVerifier } from './schemes/spec.ts';
import type { StandardRule } from './schemes/standards/standard.ts';
import { type EventIdentity, eventIdentityOf } from './trigger-expressions.ts';

/** What decides who gets in through one webhook trigger, with all settings and defaults filled in. */
export interface Entrance {
  readonly mode: EnforcementMode;
  /** Other flows may get what is delivered to it. */
  readonly isShared?: boolean;
  /** Undefined where the trigger is not served: nobody gets in, in any mode. */
  readonly gates: EntranceGates | undefined;
  /** The publisher's log whose entries are taken although no signature of theirs is verified; undefined where none is. */
  readonly unsignedFrom?: string | undefined;
  /** How the address of a client is found, for gates that go by it. */
  readonly addresses?: Pick<GateSettings, 'trustedProxies' | 'forwardedHeaderDepth'> | undefined;
}

/** What each gate judges by. */
interface Rules {
  readonly ip: AddressSet;
  readonly unverifiedRateLimit: RateLimit;
  readonly rateLimit: RateLimit & { readonly isPerIp: boolean };
  readonly signature: SignatureRule;
  readonly replay: ReplayRule;
  /** One text for JSON Schemas that mean the same; null for one that cannot be used, which no body fits. */
  readonly bodySchema: string | null;
  readonly operators: OperatorGates;
  /** No gate: what tells deliveries of one event apart, so that the second starts nothing. */
  readonly eventId: Pick<EventIdentity, 'expression' | 'days'>;
}

/** Undefined where the trigger does not configure the gate. */
type EntranceGates = { readonly [Name in keyof Rules]: Rules[Name] | undefined };

/** An operator's code may judge by any field, so fields that are the same are all that can be said of it. */
interface OperatorGates {
  readonly names: readonly string[];
  readonly trigger: Pick<WebhookTrigger, 'flowId' | 'triggerKey' | 'inputs'> & { readonly schema: unknown };
}

interface SignatureRule {
  readonly scheme: string;
  /** Each of them alone is enough; none where the gate refuses everything. */
  readonly ways: readonly SignatureWay[];
}

/** One key and how signatures are verified with it. */
interface SignatureWay {
  readonly by: SignatureSpec | SignatureVerifier | StandardRule;
  /** What of the trigger's fields the verification reads besides. */
  readonly requiresTimestamp: boolean;
  readonly allowsSha1: boolean;
  readonly isSandbox: boolean;
  readonly url: string | undefined;
  /** Only code knows what a verifier does with a previous key, so there both count as one. */
  readonly keys: readonly KeyIdentity[];
}

/** A key is the same by its value, or by where it comes from: a rotation behind a reference is no other key. */
interface KeyIdentity {
  readonly value: string | undefined;
  readonly reference: string | undefined;
  readonly learnedBy: string | undefined;
}

/** The description of a trigger that is in force, or would be. */
export function entranceOf(
  trigger: WebhookTrigger,
  { preparer, defaultMode }: { readonly preparer: GatePreparer; readonly defaultMode: EnforcementMode },
): Entrance {
  const { settings, chain } = preparer;
  const { inputs, bodySchema, flowId, triggerKey } = trigger;
  const mode = inputs.webhookEnforcementMode ?? defaultMode;
  const { scheme, gates, mistakes } = preparer.prepare(trigger);
  if (mistakes.length > 0) return { ...CLOSED, mode };
  const limit = limitOf(inputs, settings);
  const schema = bodySchema === undefined || 'error' in bodySchema ? null : meaningOf(bodySchema.text);
  const operators = gates
    .map(({ name }) => name)
    .filter((name) => !BUILT_IN.has(name) && chain.some((plugin) => plugin.name === name));
  const { trustedProxies = [], forwardedHeaderDepth = 0 } = settings;
  return {
    mode,
    isShared: inputs.webhookShared === true,
    unsignedFrom: unsignedLog(trigger, scheme !== undefined),
    addresses: { trustedProxies, forwardedHeaderDepth },
    gates: {
      ip: passingAddresses(inputs),
      unverifiedRateLimit: unverifiedLimitOf(inputs, settings),
      rateLimit: limit && { ...limit, isPerIp: countsPerIp(inputs, settings) },
      signature: signatureRule(trigger, settings),
      replay: replayRule(inputs, settings),
      bodySchema: bodySchema && schema,
      operators:
        operators.length === 0
          ? undefined
          : { names: operators, trigger: { flowId, triggerKey, inputs, schema: bodySchema && schema } },
      eventId: eventIdentityOf(trigger, scheme),
    },
  };
}

/**
 * The log of which is accepted what nothing verifies, and what the gate of addresses would not have let in. Named by what is
 * asked; how often, and by which token, is another matter.
 */
function unsignedLog({ reconcile, inputs }: WebhookTrigger, isVerified: boolean): string | undefined {
  if (reconcile === undefined) return undefined;
  const isOpened = isVerified ? reconcile.acceptUnsigned === true : passingAddresses(inputs) !== undefined;
  if (!isOpened) return undefined;
  const secret = new Set(reconcileSecrets(reconcile).map(({ path }) => formatPath(path)));
  const { every, lookback, acceptUnsigned, ...log } = reconcile;
  return JSON.stringify(mapStrings(log as Json, (text, path) => (secret.has(formatPath(path)) ? '' : text)));
}

/** A route that leads to a trigger which cannot be served. */
export const CLOSED: Entrance = { mode: 'Enforce', gates: undefined };

/** Whether only who holds a key gets in. */
export function isVerified({ mode, gates }: Entrance): boolean {
  return mode === 'Enforce' && (gates === undefined || gates.signature !== undefined);
}

/** Who gets in, in one line. */
export function describeEntrance({ mode, gates }: Entrance): string {
  if (gates === undefined) return 'nobody: the trigger is not served';
  if (mode !== 'Enforce') return `everybody: the mode is ${mode}`;
  const parts = (Object.keys(COMPARISONS) as (keyof Rules)[]).flatMap((gate) => describeGate(gate, gates));
  return parts.length === 0 ? 'everybody: there is no gate' : parts.join('; ');
}

function describeGate<Name extends keyof Rules>(gate: Name, gates: EntranceGates): string[] {
  const { describe }: Comparison<Rules[Name]> = COMPARISONS[gate];
  const rule: Rules[Name] | undefined = gates[gate];
  return rule === undefined ? [] : [describe(rule)];
}

type Aspect = keyof Rules | 'mode' | 'shared' | 'reconcile';

/** One way in which an entrance lets in more, or less. */
interface AccessReason {
  readonly aspect: Aspect;
  readonly access: Exclude<Access, 'same'>;
  /** One sentence; it names fields, never the value of a key. */
  readonly text: string;
}

/** Whether more passes through `after` than through `before`, and why. What cannot be compared counts as wider. Pure. */
export function accessOf(
  before: Entrance,
  after: Entrance,
): { readonly access: Access; readonly reasons: readonly AccessReason[] } {
  const reasons = [...sharingReasons(before, after), ...unsignedReasons(before, after), ...reasonsOf(before, after)];
  return { access: widest(reasons.map(({ access }) => access)), reasons };
}

/** Whoever gets in starts runs of the flows that share it: one that stands alone gives nobody else anything. */
function sharingReasons(
  { isShared: was = false, gates: before }: Entrance,
  { isShared: is = false, gates: after }: Entrance,
): readonly AccessReason[] {
  if (was === is || before === undefined || after === undefined) return [];
  if (!is) return [{ aspect: 'shared', access: 'narrower', text: 'No other flow gets the deliveries of its slug.' }];
  const text = 'Flows that say webhookShared too, with the same gates, may get the deliveries of its slug.';
  return [{ aspect: 'shared', access: 'wider', text }];
}

/** Only where anything is refused can anything pass that could not. */
function unsignedReasons(before: Entrance, after: Entrance): readonly AccessReason[] {
  const [was, is] = [before.unsignedFrom, after.unsignedFrom];
  if (was === is || before.mode !== 'Enforce' || after.mode !== 'Enforce' || before.gates === undefined) return [];
  if (after.gates === undefined) return [];
  const text = 'What the log of its publisher holds is accepted although nothing verifies it.';
  if (is !== undefined) return [{ aspect: 'reconcile', access: 'wider', text }];
  return [{ aspect: 'reconcile', access: 'narrower', text: 'What the log of its publisher holds has to be verified.' }];
}

/** The gates, or the mode, by which two triggers let in what the other does not; empty where they are the same to everybody. */
export function differencesOf(one: Entrance, other: Entrance): readonly string[] {
  const [ours, theirs] = [one, other].map(({ gates }) => comparable(gates));
  if (ours === undefined || theirs === undefined) return ['gates'];
  const gates = (Object.keys(COMPARISONS) as (keyof Rules)[]).filter(
    (aspect) =>
      aspect !== 'eventId' &&
      compareAspect(aspect, ours, theirs).length + compareAspect(aspect, theirs, ours).length > 0,
  );
  return [...(one.mode === other.mode ? [] : ['mode']), ...gates];
}

/** Without what says whose trigger it is, and what starts runs or not behind the gates. */
function comparable(gates: EntranceGates | undefined): EntranceGates | undefined {
  if (gates?.operators === undefined) return gates;
  const { trigger, ...operators } = gates.operators;
  const inputs = Object.fromEntries(Object.entries(trigger.inputs).filter(([field]) => !MAY_DIFFER.has(field)));
  return { ...gates, operators: { ...operators, trigger: { ...trigger, flowId: '', triggerKey: '', inputs } } };
}

/** Fields that are each trigger's own where several share a slug. */
const MAY_DIFFER: ReadonlySet<string> = new Set<keyof WebhookInputs>([
  'webhookWhen',
  'webhookEventId',
  'webhookEventIdDays',
  'webhookHoldDeliveries',
  'webhookRespond',
  'webhookHmacKey',
  'webhookHmacKeyPrevious',
  'webhookSecret',
  'webhookSecretPrevious',
  'webhookVerifyToken',
]);

export function widest(each: readonly Access[]): Access {
  if (each.includes('wider')) return 'wider';
  return each.includes('narrower') ? 'narrower' : 'same';
}

function reasonsOf(before: Entrance, after: Entrance): readonly AccessReason[] {
  const reason = (access: AccessReason['access'], text: string) => [{ aspect: 'mode', access, text } as const];
  if (before.gates === undefined) {
    return after.gates === undefined ? [] : reason('wider', 'The trigger was not served, and is.');
  }
  if (after.gates === undefined) return reason('narrower', 'The trigger is not served.');
  const judges = ({ gates: { eventId, ...gates } = NO_GATES }: Entrance) =>
    Object.values(gates).some((rule) => rule !== undefined);
  // Where nothing was refused, nothing can be added.
  if (before.mode !== 'Enforce') {
    if (after.mode !== 'Enforce' || !judges(after)) return [];
    return reason('narrower', 'What fails a gate is refused, and was accepted.');
  }
  if (after.mode !== 'Enforce') {
    if (!judges(before)) return [];
    return reason('wider', `What fails a gate is accepted: the mode is ${after.mode} and was Enforce.`);
  }
  const [one, other] = [before.gates, after.gates];
  const reasons: AccessReason[] = (Object.keys(COMPARISONS) as (keyof Rules)[]).flatMap((aspect) =>
    compareAspect(aspect, one, other).map(([access, text]) => ({ aspect, access, text })),
  );
  // Whether the operator now believes too much, only the operator knows.
  if (goesByAddress(one) && goesByAddress(other) && !isDeepStrictEqual(before.addresses, after.addresses)) {
    reasons.push({ aspect: 'ip', access: 'wider', text: 'Addresses of clients are found in another way.' });
  }
  return reasons;
}

function goesByAddress({ ip, unverifiedRateLimit, rateLimit }: EntranceGates): boolean {
  return ip !== undefined || unverifiedRateLimit !== undefined || rateLimit?.isPerIp === true;
}

type Difference = readonly [AccessReason['access'], string];

function compareAspect<Name extends keyof Rules>(
  aspect: Name,
  one: EntranceGates,
  other: EntranceGates,
): readonly Difference[] {
  const { without, compare }: Comparison<Rules[Name]> = COMPARISONS[aspect];
  const before: Rules[Name] | undefined = one[aspect];
  const after: Rules[Name] | undefined = other[aspect];
  if (before === undefined) return after === undefined ? [] : [['narrower', `${without[0]} before.`]];
  if (after === undefined) return [['wider', `${without[0]}${without[1] ?? ''}.`]];
  return compare(before, after);
}

interface Comparison<Rule> {
  /** What holds where there is no such gate, and what that means. */
  readonly without: readonly [string, string?];
  /** What the gate lets pass, in a few words. */
  readonly describe: (rule: Rule) => string;
  readonly compare: (before: Rule, after: Rule) => readonly Difference[];
}

/** How the rules of each gate compare, in the order in which gates judge. */
const COMPARISONS: { readonly [Name in keyof Rules]: Comparison<Rules[Name]> } = {
  ip: {
    without: ['Addresses are not checked'],
    describe: (rule) => `addresses of ${rule[4].length + rule[6].length} ranges`,
    compare: (before, after) => {
      if (!includesAddresses(before, after)) return [['wider', 'Addresses may deliver that could not.']];
      return includesAddresses(after, before) ? [] : [['narrower', 'Fewer addresses may deliver.']];
    },
  },
  unverifiedRateLimit: {
    without: ['Deliveries that were not verified have no limit of their own'],
    describe: (rule) => `${limitText(rule)} of each address before the signature check`,
    compare: (before, after) => compareLimits(before, after, 'of each address that reach the signature check'),
  },
  rateLimit: {
    without: ['There is no rate limit'],
    describe: (rule) => `${limitText(rule)}${rule.isPerIp ? ' of each address' : ''}`,
    compare: (before, after) => {
      const whose = after.isPerIp ? 'of each address' : 'of all addresses together';
      const limits = compareLimits(before, after, whose);
      if (before.isPerIp === after.isPerIp) return limits;
      // One account for all gives each address at most what it had, and the other way round all of them together more.
      if (after.isPerIp) return [['wider', 'Each address has its own limit, and all shared one.'], ...limits];
      return [['narrower', 'All addresses share one limit.'], ...limits];
    },
  },
  signature: {
    without: ['Signatures are not checked', ': anyone who knows the URL may deliver'],
    describe: ({ scheme, ways }) => (ways.length === 0 ? `no signature of ${scheme} passes` : `signed by ${scheme}`),
    compare: compareSignatures,
  },
  replay: {
    without: ['Neither age nor repetition of deliveries is checked'],
    describe: (rule) => `${ageText(rule)}${rule.namesNonce ? `, once by ${nonceText(rule)}` : ''}`,
    compare: compareReplays,
  },
  bodySchema: {
    without: ['Bodies of any structure pass'],
    describe: (schema) => (schema === null ? 'no body passes' : 'bodies that fit the schema'),
    compare: (before, after) => {
      if (before === after) return [];
      if (after === null) return [['narrower', 'The schema cannot be used: no body passes.']];
      return [['wider', 'The schema is another one: other bodies may pass.']];
    },
  },
  operators: {
    without: ['No gate of the operator judges'],
    describe: ({ names }) => `what ${names.join(', ')} lets pass`,
    compare: (before, after) => {
      const gone = before.names.filter((name) => !after.names.includes(name));
      if (gone.length > 0) return [['wider', `No longer asked: the gate ${gone.join(', ')} of the operator.`]];
      if (!isDeepStrictEqual(before.trigger, after.trigger)) {
        return [
          ['wider', `What the gate ${before.names.join(', ')} of the operator makes of other fields is not known.`],
        ];
      }
      return after.names.length > before.names.length ? [['narrower', 'A gate of the operator is new.']] : [];
    },
  },
  eventId: {
    without: ['Each delivery of an event starts a run'],
    describe: ({ expression, days }) => `one run for each event by ${expression} for ${days} days`,
    compare: (before, after) => {
      if (before.expression !== after.expression) {
        return [['wider', `Events are told apart by ${after.expression}, and were by ${before.expression}.`]];
      }
      if (before.days === after.days) return [];
      const text = `An event is known for ${after.days} days, and was for ${before.days}.`;
      return [[after.days < before.days ? 'wider' : 'narrower', text]];
    },
  },
};

/** Everything that may be left out is. */
const NO_GATES: EntranceGates = {
  ip: undefined,
  unverifiedRateLimit: undefined,
  rateLimit: undefined,
  signature: undefined,
  replay: undefined,
  bodySchema: undefined,
  operators: undefined,
  eventId: undefined,
};

const BUILT_IN: ReadonlySet<string> = new Set(Object.keys(COMPARISONS));

/** Which part of an entrance each field of a webhook trigger decides, by itself or with others. A new field has to say. */
const FIELDS: { readonly [Field in keyof WebhookInputs]-?: readonly Aspect[] | 'route' | 'answer' } = {
  webhookSlug: 'route',
  webhookHmacKey: ['signature'],
  webhookHmacKeyPrevious: ['signature'],
  webhookSecret: ['signature'],
  webhookSecretPrevious: ['signature'],
  webhookLearnKey: ['signature'],
  // An unknown name gives no gate, and without a scheme nothing is counted as verified.
  webhookSignatureScheme: ['signature', 'unverifiedRateLimit', 'eventId'],
  webhookAllowSha1: ['signature'],
  webhookSandbox: ['signature'],
  // Opens nothing but the handshake by which a publisher registers the URL.
  webhookVerifyToken: 'answer',
  webhookSignatureHeader: ['signature'],
  webhookFurtherSignatureHeaders: ['signature'],
  webhookSignatureForm: ['signature'],
  webhookKeyEncoding: ['signature'],
  webhookSignedPayload: ['signature'],
  webhookTimestampField: ['signature'],
  webhookTimestampUnit: ['signature'],
  webhookDeliveryIdHeader: ['signature'],
  webhookSignatureAlgorithm: ['signature'],
  webhookSignatureEncoding: ['signature'],
  webhookSignaturePrefix: ['signature'],
  webhookSignatureMultiValueDelimiter: ['signature'],
  webhookSignatureKeyValueSeparator: ['signature'],
  webhookSignatureValueKey: ['signature'],
  webhookHeaderValuePrefix: ['signature'],
  webhookAcceptMultipleSignatures: ['signature'],
  webhookAcceptedVersions: ['signature'],
  webhookSignedPayloadStrategy: ['signature'],
  webhookSignedPayloadDelimiter: ['signature'],
  webhookSignedPayloadVersion: ['signature'],
  webhookCustomStrategyName: ['signature'],
  webhookTimestampHeader: ['signature', 'replay'],
  webhookTimestampValueKey: ['signature'],
  webhookJwksUrl: ['signature'],
  webhookJwtIssuer: ['signature'],
  webhookJwtAudience: ['signature'],
  webhookJwtBodyHashClaim: ['signature'],
  webhookRequiredComponents: ['signature'],
  webhookSignatureKeyId: ['signature'],
  webhookRequireTimestamp: ['signature', 'replay'],
  webhookReplayToleranceSeconds: ['replay'],
  webhookNonceHeader: ['replay'],
  webhookRateLimitPermitsPerSecond: ['rateLimit'],
  webhookRateLimitBurstSize: ['rateLimit'],
  webhookRateLimitPerIp: ['rateLimit'],
  webhookRateLimitUnverifiedPermitsPerSecond: ['unverifiedRateLimit'],
  webhookRateLimitUnverifiedBurstSize: ['unverifiedRateLimit'],
  webhookIpAllowList: ['ip'],
  webhookIpDenyList: ['ip'],
  webhookIpAllowListPreset: ['ip'],
  webhookIpAllowListPresets: ['ip'],
  webhookBodySchema: ['bodySchema'],
  webhookEnforcementMode: ['mode'],
  webhookPublicUrl: ['signature'],
  webhookDuplicateResponse: 'answer',
  // Keeps runs from starting; who gets in stays the same.
  webhookWhen: 'answer',
  webhookEventId: ['eventId'],
  webhookEventIdDays: ['eventId'],
  webhookShared: ['shared'],
  // Watches what comes; who gets in stays the same.
  webhookExpectEvery: 'answer',
  webhookHoldDeliveries: 'answer',
  webhookRespond: 'answer',
  webhookResponse: 'answer',
};

/** The fields that decide a part of an entrance. */
export function fieldsOf(aspect: Aspect): string[] {
  return Object.entries(FIELDS).flatMap(([field, parts]) =>
    typeof parts !== 'string' && parts.includes(aspect) ? [field] : [],
  );
}

const limitText = ({ permitsPerSecond, burstSize }: RateLimit) =>
  `${permitsPerSecond} a second and ${burstSize} at once`;
const ageText = ({ toleranceMs }: ReplayRule) =>
  toleranceMs === 0 ? 'of any age' : `at most ${toleranceMs / 1000} s old`;
const nonceText = ({ nonceHeader }: ReplayRule) => nonceHeader ?? 'a hash of what was signed';

function compareLimits(before: RateLimit, after: RateLimit, whose: string): Difference[] {
  const text = `The limit is ${limitText(after)} ${whose}, and was ${limitText(before)}.`;
  if (after.permitsPerSecond > before.permitsPerSecond || after.burstSize > before.burstSize) return [['wider', text]];
  const isSame = after.permitsPerSecond === before.permitsPerSecond && after.burstSize === before.burstSize;
  return isSame ? [] : [['narrower', text]];
}

function compareReplays(before: ReplayRule, after: ReplayRule): Difference[] {
  const found: Difference[] = [];
  const oldest = ({ toleranceMs }: ReplayRule) => (toleranceMs === 0 ? Number.POSITIVE_INFINITY : toleranceMs);
  if (oldest(after) !== oldest(before)) {
    const access = oldest(after) > oldest(before) ? 'wider' : 'narrower';
    found.push([access, `Deliveries pass ${ageText(after)}, and did ${ageText(before)}.`]);
  }
  if (after.requiresTimestamp !== before.requiresTimestamp) {
    if (after.requiresTimestamp) found.push(['narrower', 'A delivery needs a timestamp.']);
    else found.push(['wider', 'A delivery needs no timestamp.']);
  }
  if (after.timestampHeader !== before.timestampHeader) {
    found.push(['wider', 'The timestamp is read from elsewhere.']);
  }
  // What was accepted is known under any name; but which value tells deliveries apart from now on, who sends them decides.
  if (!before.namesNonce && after.namesNonce) found.push(['narrower', 'A delivery is accepted once.']);
  else if (!after.namesNonce && before.namesNonce) found.push(['wider', 'Deliveries may be repeated.']);
  else if (after.namesNonce && after.nonceTtlMs < before.nonceTtlMs) {
    found.push([
      'wider',
      `Deliveries may be repeated after ${after.nonceTtlMs / 1000} s, and not before ${before.nonceTtlMs / 1000} s so far.`,
    ]);
  }
  if (before.namesNonce && after.namesNonce && after.nonceHeader !== before.nonceHeader) {
    found.push(['wider', `Deliveries are told apart by ${nonceText(after)}, and were by ${nonceText(before)}.`]);
  }
  return found;
}

function signatureRule(trigger: WebhookTrigger, settings: SignatureSettings): SignatureRule | undefined {
  const { inputs } = trigger;
  const scheme = resolveScheme(settings.schemes, inputs, trigger.keys);
  if (scheme === undefined) return undefined;
  const url = inputs.webhookPublicUrl ?? settings.publicUrl;
  const identity = (role: keyof WebhookTrigger['keys'], value: string | undefined): KeyIdentity => {
    const [own, legacy] =
      role === 'current'
        ? [inputs.webhookHmacKey, inputs.webhookSecret]
        : [inputs.webhookHmacKeyPrevious, inputs.webhookSecretPrevious];
    const written = own ?? legacy ?? '';
    return { value, reference: isReference(written) ? written : undefined, learnedBy: undefined };
  };
  if (scheme.kind === 'verifier') {
    const { verifier } = scheme;
    const { current, previous } = keysInForce(trigger, verifier, settings.learnedKeys);
    const keys = [identity('current', current), identity('previous', previous)];
    return {
      scheme: verifier.name,
      ways: [{ by: verifier, requiresTimestamp: false, allowsSha1: false, isSandbox: false, url, keys }],
    };
  }
  if (scheme.kind === 'standard') {
    const { name, rule, readsUrl } = scheme.standard;
    const { current, previous } = trigger.keys;
    const fetched = { value: undefined, reference: rule.keySetUrl, learnedBy: undefined };
    const configured = [
      identity('current', current),
      ...(previous === undefined ? [] : [identity('previous', previous)]),
    ];
    const keys = rule.keySetUrl === undefined ? (current === undefined ? [] : configured) : [fetched];
    const common = { by: rule, requiresTimestamp: rule.requiresTimestamp, allowsSha1: false, isSandbox: false };
    return { scheme: name, ways: keys.map((key) => ({ ...common, url: readsUrl ? url : undefined, keys: [key] })) };
  }
  const { spec, previousSpec = spec } = scheme;
  if (usesSha1(spec) && !allowsSha1(inputs, settings)) return { scheme: spec.name, ways: [] };
  const way = (by: SignatureSpec, key: KeyIdentity): SignatureWay => ({
    by,
    requiresTimestamp: isRequired(by, inputs.webhookRequireTimestamp === true),
    allowsSha1: (usesSha1(by) || by.algorithmField !== undefined) && allowsSha1(inputs, settings),
    isSandbox: by.certificate?.sandbox !== undefined && inputs.webhookSandbox === true,
    url: [by, by.requestForm].some(
      (form) => form && hasPart(form.signs, 'url', 'path', 'query', 'target', 'host', 'built'),
    )
      ? url
      : undefined,
    keys: [key],
  });
  const { current, previous } = keysInForce(trigger, spec, settings.learnedKeys);
  const learnedBy =
    trigger.keys.current === undefined && learnsKey(spec, inputs)
      ? JSON.stringify([trigger.flowId, trigger.triggerKey, spec.name])
      : undefined;
  // Without a current key no previous one is read.
  if (current === undefined && learnedBy === undefined) return { scheme: spec.name, ways: [] };
  return {
    scheme: spec.name,
    ways: [
      way(spec, { ...identity('current', current), learnedBy }),
      ...(previous === undefined ? [] : [way(previousSpec, identity('previous', previous))]),
    ],
  };
}

function compareSignatures(before: SignatureRule, after: SignatureRule): Difference[] {
  const fresh = after.ways.filter((way) => !before.ways.some((other) => admits(other, way)));
  if (fresh.length > 0) {
    if (before.ways.length === 0) return [['wider', 'Signatures pass, and none could before.']];
    const isForeign = fresh.some((way) => !before.ways.some((other) => haveSameKeys(other, way)));
    const text = isForeign ? 'A key verifies deliveries that did not before.' : 'Signatures are read in another way.';
    return [['wider', before.scheme === after.scheme ? text : `${text} The scheme is ${after.scheme}.`]];
  }
  const lost = before.ways.filter((way) => !after.ways.some((other) => admits(other, way)));
  if (lost.length === 0) return [];
  return [['narrower', after.ways.length === 0 ? 'No signature can pass.' : 'Fewer signatures pass.']];
}

/** Whether all that passes the one way passes the outer one. */
function admits(outer: SignatureWay, way: SignatureWay): boolean {
  return (
    haveSameKeys(outer, way) &&
    admitsForm(outer.by, way.by) &&
    (way.requiresTimestamp || !outer.requiresTimestamp) &&
    (outer.allowsSha1 || !way.allowsSha1) &&
    (outer.isSandbox || !way.isSandbox) &&
    outer.url === way.url
  );
}

function haveSameKeys(one: SignatureWay, other: SignatureWay): boolean {
  return one.keys.length === other.keys.length && one.keys.every((key, at) => isSameKey(key, other.keys[at]));
}

function isSameKey(one: KeyIdentity, other: KeyIdentity | undefined): boolean {
  const isSame = (a: string | undefined, b: string | undefined) => a !== undefined && a === b;
  if (one.learnedBy !== undefined || other?.learnedBy !== undefined) {
    // Who learns may come to know any key; one that is configured is known.
    if (isSame(one.learnedBy, other?.learnedBy)) return true;
    return other?.learnedBy === undefined && isSame(one.value, other?.value);
  }
  return (
    isSame(one.reference, other?.reference) ||
    isSame(one.value, other?.value) ||
    (one.value === undefined && one.reference === undefined && isDeepStrictEqual(one, other))
  );
}

/** Of segments in one header, any that is accepted may be the signature; without that only the same ones compare. */
function admitsForm(outer: SignatureWay['by'], way: SignatureWay['by']): boolean {
  if ('standard' in outer && 'standard' in way) return admitsRule(outer, way);
  if (!('signs' in outer && 'signs' in way)) return isDeepStrictEqual(outer, way);
  const [{ multiValue: all, ...rest }, { multiValue: some, ...other }] = [readForm(outer), readForm(way)];
  if (isDeepStrictEqual({ ...rest, all }, { ...other, all: some })) return true;
  if (all?.acceptsMultiple !== true) return false;
  if (some === undefined || !isDeepStrictEqual(rest, other)) return false;
  const isSplitAlike =
    all.delimiter === some.delimiter &&
    all.setDelimiter === some.setDelimiter &&
    all.keyValueSeparator === some.keyValueSeparator &&
    all.isTrimmed === some.isTrimmed;
  return isSplitAlike && some.valueKeys.every((key) => all.valueKeys.includes(key));
}

/** A rule that asks for more admits less. What every delivery is compared with has to be the same. */
function admitsRule(outer: StandardRule, way: StandardRule): boolean {
  if ((outer.keyEncoding ?? 'utf8') !== (way.keyEncoding ?? 'utf8')) return false;
  const isNoStricter = (one: string | undefined, other: string | undefined) => one === undefined || one === other;
  if (outer.standard === 'Jwt' && way.standard === 'Jwt') {
    const isSamePlace = outer.header.toLowerCase() === way.header.toLowerCase();
    const isSameForm = isDeepStrictEqual(
      [outer.carrier, outer.time, outer.urlHash],
      [way.carrier, way.time, way.urlHash],
    );
    return (
      isSamePlace &&
      isSameForm &&
      outer.requiredClaims.every((claim) => way.requiredClaims.includes(claim)) &&
      outer.prefix.toLowerCase() === way.prefix.toLowerCase() &&
      isNoStricter(outer.issuer, way.issuer) &&
      isNoStricter(outer.audience, way.audience) &&
      isNoStricter(outer.bodyHashClaim, way.bodyHashClaim)
    );
  }
  if (outer.standard !== 'HttpMessageSignatures' || way.standard !== 'HttpMessageSignatures') return false;
  return isNoStricter(outer.keyId, way.keyId) && outer.components.every((it) => way.components.includes(it));
}

/** A spec as it is read: headers and what comes before their values in any case, what is empty as what is absent, keys in any order. */
function readForm(spec: SignatureSpec) {
  const { headers, prefix = '', headerValuePrefix = '', multiValue } = spec;
  return {
    ...spec,
    headers: headers.map(({ signature, furtherSignatures = [], timestamp, deliveryId }) =>
      [[signature], furtherSignatures, [timestamp], [deliveryId]].map((names) =>
        names.map((name) => name?.toLowerCase()),
      ),
    ),
    prefix,
    headerValuePrefix: headerValuePrefix.toLowerCase(),
    multiValue: multiValue && { ...multiValue, valueKeys: multiValue.valueKeys.toSorted() },
  };
}
