import { isDeepStrictEqual } from 'node:util';
import { meaningOf } from '../../manifest/body-schema.ts';
import { signalsOf, unverifiedSources } from '../../manifest/trigger-objects.ts';
import { WEBHOOK_ROWS } from '../../manifest/webhook-fields.ts';
import type { WebhookTrigger } from '../../manifest/webhook-inputs.ts';
import { type Access, widest } from '../../model/finding.ts';
import type { EnforcementMode } from '../../model/manifest.ts';
import { type EntranceGates, judgesOf } from '../../webhooks/access-rules.ts';
import type { GateSettings } from '../../webhooks/gate.ts';
import { passingAddresses } from '../../webhooks/gates/ip.ts';
import { countsPerIp, limitOf, type RateLimit, unverifiedLimitOf } from '../../webhooks/gates/rate-limit.ts';
import { type ReplayRule, replayRule } from '../../webhooks/gates/replay.ts';
import { type AddressSet, includesAddresses } from '../../webhooks/networks/addresses.ts';
import { type EventIdentity, eventIdentityOf } from '../../webhooks/trigger-expressions.ts';
import { compareSignatures, type Difference, type SignatureRule, signatureRule } from './signature-access.ts';

/** Everything that decides who gets in through one webhook trigger, with all settings and defaults filled in. */
export interface Entrance {
  readonly mode: EnforcementMode;
  /** Other flows may get its deliveries. */
  readonly isShared?: boolean;
  /** Undefined if the trigger is not served: no delivery gets in, in any mode. */
  readonly gates: EntranceRules | undefined;
  /** The step that its deliveries answer, and by which key; undefined if they start runs. */
  readonly answers?: string | undefined;
  /** The publisher's log whose entries are accepted without a verified signature; undefined if there is none. */
  readonly unsignedFrom?: string | undefined;
  /** How client addresses are found, for gates that judge by address. */
  readonly addresses?: Pick<GateSettings, 'trustedProxies' | 'forwardedHeaderDepth'> | undefined;
}

/** The rule of each gate. */
interface Rules {
  readonly ip: AddressSet;
  readonly unverifiedRateLimit: RateLimit;
  readonly rateLimit: RateLimit & { readonly isPerIp: boolean };
  readonly signature: SignatureRule;
  readonly replay: ReplayRule;
  /** Equal for JSON Schemas that mean the same; null for an unusable schema, which no body fits. */
  readonly bodySchema: string | null;
  readonly operators: OperatorGates;
  /** Not a gate: how deliveries of the same event are recognised, so that the second one starts nothing. */
  readonly eventId: Pick<EventIdentity, 'expression' | 'days'>;
}

/** Undefined if the trigger does not configure the gate. */
type EntranceRules = { readonly [Name in keyof Rules]: Rules[Name] | undefined };

/** Operator code may judge by any field, so it can only be compared by whether all fields are equal. */
interface OperatorGates {
  readonly names: readonly string[];
  readonly trigger: Pick<WebhookTrigger, 'flowId' | 'triggerKey' | 'inputs'> & { readonly schema: unknown };
}

/** The entrance of a trigger that is in force, or would be once deployed. */
export function entranceOf(trigger: WebhookTrigger, { preparer, defaultMode, judges }: EntranceGates): Entrance {
  const { settings } = preparer;
  const { inputs, bodySchema, flowId, triggerKey } = trigger;
  const mode = inputs.webhookEnforcementMode ?? defaultMode;
  const { scheme, mistakes } = preparer.prepare(trigger);
  if (mistakes.length > 0) return { ...CLOSED, mode };
  const limit = limitOf(inputs, settings);
  const schema = bodySchema === undefined || 'error' in bodySchema ? null : meaningOf(bodySchema.text);
  const own = judges !== undefined && Object.hasOwn(judges, triggerKey) ? judges[triggerKey] : undefined;
  const { gates: operators, scheme: registration } = own ?? judgesOf(trigger, preparer);
  const signature = signatureRule(trigger, settings);
  const { trustedProxies = [], forwardedHeaderDepth = 0 } = settings;
  return {
    mode,
    isShared: inputs.webhookShared === true,
    answers: answersOf(trigger),
    unsignedFrom: unverifiedSources(trigger, {
      verifies: scheme !== undefined,
      // Fetched entries have no client address that the gate could judge.
      asksAddress: passingAddresses(inputs) !== undefined,
    }),
    addresses: { trustedProxies, forwardedHeaderDepth },
    gates: {
      ip: passingAddresses(inputs),
      unverifiedRateLimit: unverifiedLimitOf(inputs, settings),
      rateLimit: limit && { ...limit, isPerIp: countsPerIp(inputs, settings) },
      signature: signature && { ...signature, registration },
      replay: replayRule(trigger, settings),
      bodySchema: bodySchema && schema,
      operators:
        operators.length === 0
          ? undefined
          : { names: operators, trigger: { flowId, triggerKey, inputs, schema: bodySchema && schema } },
      eventId: eventIdentityOf(trigger, scheme),
    },
  };
}

/** The entrance of a trigger that cannot be served. */
export const CLOSED: Entrance = { mode: 'Enforce', gates: undefined };

/** Whether only senders that hold a key get in. */
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

function describeGate<Name extends keyof Rules>(gate: Name, gates: EntranceRules): string[] {
  const { describe }: Comparison<Rules[Name]> = COMPARISONS[gate];
  const rule: Rules[Name] | undefined = gates[gate];
  return rule === undefined ? [] : [describe(rule)];
}

type Aspect = keyof Rules | 'mode' | 'shared' | 'answers' | 'unsigned';

/** One way in which an entrance lets in more, or less. */
interface AccessReason {
  readonly aspect: Aspect;
  readonly access: Exclude<Access, 'same'>;
  /** One sentence; it names fields, never the value of a key. */
  readonly text: string;
}

/** Whether more passes `after` than `before`, and why. Rules that cannot be compared count as wider. Pure. */
export function accessOf(
  before: Entrance,
  after: Entrance,
): { readonly access: Access; readonly reasons: readonly AccessReason[] } {
  const reasons = [
    ...answerReasons(before, after),
    ...sharingReasons(before, after),
    ...unsignedReasons(before, after),
    ...reasonsOf(before, after),
  ];
  return { access: widest(reasons.map(({ access }) => access)), reasons };
}

/** Every change is wider: answering is more than starting a run, and another step or key is another answer. */
function answerReasons(
  { answers: was, gates }: Entrance,
  { answers: is, gates: after }: Entrance,
): readonly AccessReason[] {
  if (was === is || gates === undefined || after === undefined) return [];
  const text = is === undefined ? 'Its deliveries start runs, and answered a step.' : answerText(is);
  return [{ aspect: 'answers', access: 'wider', text }];
}

export const answerText = (answers: string) => `Whoever gets in answers ${answers}.`;

function answersOf(trigger: WebhookTrigger): string | undefined {
  const { step, key } = signalsOf(trigger) ?? {};
  return step === undefined ? undefined : `the step ${step} of runs that wait for ${key}`;
}

/** Senders start runs of all flows that share the slug; a trigger that does not share gives nothing to other flows. */
function sharingReasons(
  { isShared: was = false, gates: before }: Entrance,
  { isShared: is = false, gates: after }: Entrance,
): readonly AccessReason[] {
  if (was === is || before === undefined || after === undefined) return [];
  if (!is) return [{ aspect: 'shared', access: 'narrower', text: 'No other flow gets the deliveries of its slug.' }];
  const text = 'Flows that say webhookShared too, with the same gates, may get the deliveries of its slug.';
  return [{ aspect: 'shared', access: 'wider', text }];
}

/** Compares only entrances that enforce: if nothing is refused, nothing more can pass. */
function unsignedReasons(before: Entrance, after: Entrance): readonly AccessReason[] {
  const [was, is] = [before.unsignedFrom, after.unsignedFrom];
  if (was === is || before.mode !== 'Enforce' || after.mode !== 'Enforce' || before.gates === undefined) return [];
  if (after.gates === undefined) return [];
  const text = 'What the log of its publisher holds is accepted although nothing verifies it.';
  if (is !== undefined) return [{ aspect: 'unsigned', access: 'wider', text }];
  return [{ aspect: 'unsigned', access: 'narrower', text: 'What the log of its publisher holds has to be verified.' }];
}

/** The gates, and the mode, by which two triggers let in different deliveries; empty if both let in the same ones. */
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

/** Leaves out the trigger's identity, and the fields that only decide behind the gates whether a run starts. */
function comparable(gates: EntranceRules | undefined): EntranceRules | undefined {
  if (gates?.operators === undefined) return gates;
  const { trigger, ...operators } = gates.operators;
  const inputs = Object.fromEntries(Object.entries(trigger.inputs).filter(([field]) => !MAY_DIFFER.has(field)));
  return { ...gates, operators: { ...operators, trigger: { ...trigger, flowId: '', triggerKey: '', inputs } } };
}

/** Fields that may differ between triggers that share a slug. */
const MAY_DIFFER: ReadonlySet<string> = new Set(
  Object.entries(WEBHOOK_ROWS).flatMap(([field, { isOwnOnSharedSlug }]) => (isOwnOnSharedSlug ? [field] : [])),
);

function reasonsOf(before: Entrance, after: Entrance): readonly AccessReason[] {
  const reason = (access: AccessReason['access'], text: string) => [{ aspect: 'mode', access, text } as const];
  if (before.gates === undefined) {
    return after.gates === undefined ? [] : reason('wider', 'The trigger was not served, and is.');
  }
  if (after.gates === undefined) return reason('narrower', 'The trigger is not served.');
  const judges = ({ gates: { eventId, ...gates } = NO_GATES }: Entrance) =>
    Object.values(gates).some((rule) => rule !== undefined);
  // If nothing was refused before, nothing more can get in.
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
  // Only the operator can say whether the new settings believe too much.
  if (goesByAddress(one) && goesByAddress(other) && !isDeepStrictEqual(before.addresses, after.addresses)) {
    reasons.push({ aspect: 'ip', access: 'wider', text: 'Addresses of clients are found in another way.' });
  }
  return reasons;
}

function goesByAddress({ ip, unverifiedRateLimit, rateLimit, operators }: EntranceRules): boolean {
  return [ip, unverifiedRateLimit, operators].some((rule) => rule !== undefined) || rateLimit?.isPerIp === true;
}

function compareAspect<Name extends keyof Rules>(
  aspect: Name,
  one: EntranceRules,
  other: EntranceRules,
): readonly Difference[] {
  const { without, compare }: Comparison<Rules[Name]> = COMPARISONS[aspect];
  const before: Rules[Name] | undefined = one[aspect];
  const after: Rules[Name] | undefined = other[aspect];
  if (before === undefined) return after === undefined ? [] : [['narrower', `${without[0]} before.`]];
  if (after === undefined) return [['wider', `${without[0]}${without[1] ?? ''}.`]];
  return compare(before, after);
}

interface Comparison<Rule> {
  /** What is true without the gate, and the consequence. */
  readonly without: readonly [string, string?];
  /** Short description of the deliveries that the gate accepts. */
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
      // One limit for all gives each address at most what it had; separate limits give all of them together more.
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

/** A trigger that configures no gate. */
const NO_GATES: EntranceRules = {
  ip: undefined,
  unverifiedRateLimit: undefined,
  rateLimit: undefined,
  signature: undefined,
  replay: undefined,
  bodySchema: undefined,
  operators: undefined,
  eventId: undefined,
};

/** The fields that decide a part of an entrance. */
export function fieldsOf(aspect: Aspect): string[] {
  return Object.entries(WEBHOOK_ROWS).flatMap(([field, { decides }]) => {
    const parts: readonly Aspect[] = typeof decides === 'string' ? [] : decides;
    return parts.includes(aspect) ? [field] : [];
  });
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
  // Accepted deliveries stay known under every name, but senders choose the value that identifies new deliveries.
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
