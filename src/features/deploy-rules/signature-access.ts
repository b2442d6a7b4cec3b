import { isDeepStrictEqual } from 'node:util';
import { isReference } from '../../manifest/read-secret.ts';
import type { WebhookTrigger } from '../../manifest/webhook-inputs.ts';
import type { Access } from '../../model/finding.ts';
import type { Json } from '../../model/json.ts';
import { allowsSha1, isRequired, leewayOf, type SignatureSettings, usesSha1 } from '../../webhooks/gates/signature.ts';
import { keysInForce, learnsKey } from '../../webhooks/keys-in-force.ts';
import { hasPart } from '../../webhooks/schemes/layout.ts';
import { resolveScheme } from '../../webhooks/schemes/resolve.ts';
import type { SignatureSpec, SignatureVerifier } from '../../webhooks/schemes/spec.ts';
import type { StandardRule } from '../../webhooks/schemes/standards/standard.ts';

/** How one trigger verifies signatures, and with which keys. */
export interface SignatureRule {
  readonly scheme: string;
  /** Any one of them is enough; empty if the gate refuses everything. */
  readonly ways: readonly SignatureWay[];
  /** The scheme as the operator registered it, as data. */
  readonly registration: Json;
}

/** One key and how signatures are verified with it. */
interface SignatureWay {
  readonly by: SignatureSpec | SignatureVerifier | StandardRule;
  /** This and the next four: other fields of the trigger that verification reads. */
  readonly requiresTimestamp: boolean;
  readonly allowsSha1: boolean;
  readonly isSandbox: boolean;
  /** Where the URL comes from, if it is read: the configured one, or the proxies that may forward it. */
  readonly url: string | undefined;
  /** By how much the time limit of a signature may be passed, if it has one. */
  readonly leewaySeconds?: number | undefined;
  /** One key; for a verifier current and previous together, since only its code knows how it uses the previous one. */
  readonly keys: readonly KeyIdentity[];
}

/**
 * Two keys are the same if their values or their references are equal: rotating the value behind a reference changes
 * nothing. A reference counts within its flow, because two flows can read it at different times.
 */
interface KeyIdentity {
  readonly value: string | undefined;
  readonly reference: string | undefined;
  readonly learnedBy: string | undefined;
}

/** Whether more or fewer deliveries get in, and one sentence that says why. */
export type Difference = readonly [Exclude<Access, 'same'>, string];

export function signatureRule(
  trigger: WebhookTrigger,
  settings: SignatureSettings,
): Omit<SignatureRule, 'registration'> | undefined {
  const { inputs } = trigger;
  const scheme = resolveScheme(settings.schemes, inputs, trigger.keys);
  if (scheme === undefined) return undefined;
  const { trustedProxies = [], forwardedHeaderDepth = 0 } = settings;
  const forwarded = JSON.stringify([trustedProxies, forwardedHeaderDepth]);
  const url = inputs.webhookPublicUrl ?? settings.publicUrl ?? forwarded;
  const identity = (role: 'current' | 'previous', value: string | undefined, at = 0): KeyIdentity => {
    const [own, legacy] =
      role === 'current'
        ? [inputs.webhookHmacKey, inputs.webhookSecret]
        : [inputs.webhookHmacKeyPrevious, inputs.webhookSecretPrevious];
    const written = [own ?? legacy ?? []].flat().filter((text) => text !== '')[at] ?? '';
    const reference = isReference(written) ? `${trigger.flowId} ${written}` : undefined;
    return { value, reference, learnedBy: undefined };
  };
  const further = (trigger.keys.others ?? []).map((value, at) => identity('current', value, at + 1));
  if (scheme.kind === 'verifier') {
    const { verifier } = scheme;
    const { current, previous } = keysInForce(trigger, verifier, settings.learnedKeys);
    const keys = [identity('current', current), identity('previous', previous)];
    return {
      scheme: verifier.name,
      ways: [keys, ...further.map((key) => [key, identity('previous', undefined)])].map((keys) => ({
        ...{ by: verifier, requiresTimestamp: false, allowsSha1: false, isSandbox: false, url, keys },
      })),
    };
  }
  if (scheme.kind === 'standard') {
    const { name, rule, readsUrl } = scheme.standard;
    const { current, previous } = trigger.keys;
    const fetched = { value: undefined, reference: rule.keySetUrl, learnedBy: undefined };
    const configured = [
      identity('current', current),
      ...further,
      ...(previous === undefined ? [] : [identity('previous', previous)]),
    ];
    const keys = rule.keySetUrl === undefined ? (current === undefined ? [] : configured) : [fetched];
    const common = { by: rule, requiresTimestamp: rule.requiresTimestamp, allowsSha1: false, isSandbox: false };
    const read = { url: readsUrl ? url : undefined, leewaySeconds: leewayOf(inputs, settings) };
    return { scheme: name, ways: keys.map((key) => ({ ...common, ...read, keys: [key] })) };
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
  // Without a current key, the previous key is not read.
  if (current === undefined && learnedBy === undefined) return { scheme: spec.name, ways: [] };
  return {
    scheme: spec.name,
    ways: [
      way(spec, { ...identity('current', current), learnedBy }),
      ...further.map((key) => way(spec, key)),
      ...(previous === undefined ? [] : [way(previousSpec, identity('previous', previous))]),
    ],
  };
}

export function compareSignatures(before: SignatureRule, after: SignatureRule): Difference[] {
  const fresh = after.ways.filter((way) => !before.ways.some((other) => admits(other, way)));
  if (fresh.length > 0) {
    if (before.ways.length === 0) return [['wider', 'Signatures pass, and none could before.']];
    const isForeign = fresh.some((way) => !before.ways.some((other) => haveSameKeys(other, way)));
    const { leewaySeconds } = fresh[0] ?? {};
    const isLater = fresh.every((way) => before.ways.some((other) => admits({ ...other, leewaySeconds }, way)));
    if (isLater) return [['wider', `Signatures pass for ${leewaySeconds} s after they have expired.`]];
    const text = isForeign ? 'A key verifies deliveries that did not before.' : 'Signatures are read in another way.';
    return [['wider', before.scheme === after.scheme ? text : `${text} The scheme is ${after.scheme}.`]];
  }
  if (before.scheme === after.scheme && !isDeepStrictEqual(before.registration, after.registration)) {
    return [['wider', `The scheme ${after.scheme} is registered in another way.`]];
  }
  const lost = before.ways.filter((way) => !after.ways.some((other) => admits(other, way)));
  if (lost.length === 0) return [];
  return [['narrower', after.ways.length === 0 ? 'No signature can pass.' : 'Fewer signatures pass.']];
}

/** Whether `outer` accepts every delivery that `way` accepts. */
function admits(outer: SignatureWay, way: SignatureWay): boolean {
  return (
    haveSameKeys(outer, way) &&
    admitsForm(outer.by, way.by) &&
    (way.requiresTimestamp || !outer.requiresTimestamp) &&
    (outer.allowsSha1 || !way.allowsSha1) &&
    (outer.isSandbox || !way.isSandbox) &&
    (outer.leewaySeconds ?? 0) >= (way.leewaySeconds ?? 0) &&
    outer.url === way.url
  );
}

function haveSameKeys(one: SignatureWay, other: SignatureWay): boolean {
  return one.keys.length === other.keys.length && one.keys.every((key, at) => isSameKey(key, other.keys[at]));
}

function isSameKey(one: KeyIdentity, other: KeyIdentity | undefined): boolean {
  const isSame = (a: string | undefined, b: string | undefined) => a !== undefined && a === b;
  if (one.learnedBy !== undefined || other?.learnedBy !== undefined) {
    // A trigger that learns its key may learn any key; a configured key is fixed.
    if (isSame(one.learnedBy, other?.learnedBy)) return true;
    return other?.learnedBy === undefined && isSame(one.value, other?.value);
  }
  return (
    isSame(one.reference, other?.reference) ||
    isSame(one.value, other?.value) ||
    (one.value === undefined && one.reference === undefined && isDeepStrictEqual(one, other))
  );
}

/** If `outer` accepts several segments of a header, `way` may read fewer of them; otherwise forms must be equal. */
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

/** A rule that asks for more admits less. Parts that every delivery is compared with must be equal. */
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

/** A spec as it is read: case of header names and prefixes and order of keys do not count; empty means absent. */
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
