import { createHash } from 'node:crypto';
import { copyOf, type Delivery, type Reason } from '../../model/delivery.ts';
import {
  type Evidence,
  type Gate,
  GateConfigurationError,
  type GatePlugin,
  type GateSettings,
  type SignedTimestamp,
  type Verdict,
  type WebhookInputs,
  type WebhookTrigger,
} from '../gate.ts';
import { handsOverKey, keysInForce, learnsKey } from '../keys-in-force.ts';
import { type Certificates, CertificateUnavailableError, certificateUrlOf } from '../schemes/certificates.ts';
import { type ResolvedScheme, resolveScheme, type SchemeRegistry } from '../schemes/resolve.ts';
import { readVerificationKey, type SchemeKey } from '../schemes/scheme-keys.ts';
import { withoutFragment } from '../schemes/signed-payload.ts';
import type { SignatureSpec, SignatureVerifier, VerificationResult } from '../schemes/spec.ts';
import { type KeySets, KeySetUnavailableError } from '../schemes/standards/key-sets.ts';
import type { StandardKeys, StandardScheme } from '../schemes/standards/standard.ts';
import { verifyStandard } from '../schemes/standards/verify.ts';
import { isPublicKey, readVerifyingKeys } from '../schemes/standards/verifying-keys.ts';
import { extract, type KeyPair, prepareVerification, verifyWithSpec } from '../schemes/verify.ts';
import { withEachKey } from './each-key.ts';
import { AnswerTimeoutError, answerInTime, failureOf, sentenceOf } from './operator-gate.ts';

export type SignatureSettings = GateSettings & {
  readonly schemes: SchemeRegistry;
  /** Absent if nothing is fetched, as in a command that only reads manifests. */
  readonly certificates?: Certificates | undefined;
  /** Absent as above. */
  readonly keySets?: KeySets | undefined;
  /** Calls an https URL of a publisher, which completes a handshake; rejects for any answer but 200. Absent as above. */
  readonly visit?: ((url: string) => Promise<unknown>) | undefined;
};

type ResolvedSpec = Extract<ResolvedScheme, { kind: 'spec' }>;

type UrlReader = (delivery: Delivery) => ReturnType<typeof calledUrl>;

/**
 * Checks that a holder of the trigger's key signed the delivery. A trigger without a scheme, or with an unknown scheme,
 * has no such gate; the loader warns of an unknown scheme.
 */
export const signatureGate: GatePlugin<SignatureSettings> = {
  name: 'signature',
  prepare: (trigger, settings) => withEachKey(trigger, (one) => gateOf(one, settings)),
};

function gateOf(trigger: WebhookTrigger, settings: SignatureSettings): Gate | undefined {
  const scheme = resolveScheme(settings.schemes, trigger.inputs, trigger.keys);
  if (scheme === undefined) return undefined;
  const readUrl = urlReader(trigger.inputs, settings);
  if (scheme.kind === 'verifier') {
    const keys = () => keysInForce(trigger, scheme.verifier, settings.learnedKeys);
    return verifierGate(scheme.verifier, keys, { readUrl, limitMs: settings.verifierTimeLimitMs });
  }
  if (scheme.kind === 'standard') return standardGate(scheme.standard, trigger, { readUrl, settings });
  const { spec, previousSpec } = scheme;
  // An invalid key is an error, even if the scheme cannot verify for other reasons.
  const keys = readKeys(scheme, trigger);
  if (usesSha1(spec) && !allowsSha1(trigger.inputs, settings)) {
    return refusingGate(spec, 'sha1_not_allowed', `${spec.name} signs with SHA-1, which is turned off`);
  }
  const options = {
    readUrl,
    requiresTimestamp: trigger.inputs.webhookRequireTimestamp === true,
    allowsSha1: allowsSha1(trigger.inputs, settings),
  };
  if (keys === undefined && learnsKey(spec, trigger.inputs)) {
    return learningGate(spec, trigger, { ...options, learnedKeys: settings.learnedKeys });
  }
  if (keys === undefined) return refusingGate(spec, 'key_not_configured', lackOfKey(spec));
  if (spec.certificate !== undefined) {
    return certificateGate(spec, keys, {
      ...options,
      certificates: settings.certificates,
      isSandbox: trigger.inputs.webhookSandbox === true,
      limitMs: settings.verifierTimeLimitMs,
    });
  }
  if (previousSpec === undefined || keys.previous === undefined) return specGate(spec, keys, options);
  const { current, previous } = keys;
  return eitherGate(
    specGate(spec, { current, previous: undefined }, options),
    specGate(previousSpec, { current: previous, previous: undefined }, options),
  );
}

/** Options for the gates of specs, in addition to spec and keys. */
interface SpecGateOptions {
  readonly readUrl: UrlReader;
  readonly requiresTimestamp: boolean;
  readonly allowsSha1: boolean;
}

/** Whether any digest that the scheme accepts is SHA-1. */
export function usesSha1(spec: SignatureSpec): boolean {
  return [spec, ...(spec.alternatives ?? [])].some(({ algorithm }) => algorithm === 'sha1');
}

/** Allowed by the setting of the process, or by the trigger's own field. */
export function allowsSha1(
  { webhookAllowSha1 }: WebhookInputs,
  { allowLegacySha1 }: Pick<SignatureSettings, 'allowLegacySha1'>,
): boolean {
  return allowLegacySha1 || webhookAllowSha1 === true;
}

function lackOfKey(spec: SignatureSpec): string {
  const missing = 'the trigger has no webhookHmacKey';
  return handsOverKey(spec) ? `${missing}, and learns none without "webhookLearnKey": true` : missing;
}

/** Undefined without a current key: a lone previous key is a forgotten rotation, not a configuration. */
function readKeys(
  { spec, previousSpec = spec }: Pick<ResolvedSpec, 'spec' | 'previousSpec'>,
  { keys, inputs }: WebhookTrigger,
): KeyPair | undefined {
  if (keys.current === undefined) return undefined;
  const [current, previous] = keyFields(inputs);
  return {
    current: readSecret(spec, keys.current, current),
    previous: keys.previous === undefined ? undefined : readSecret(previousSpec, keys.previous, previous),
  };
}

/** A public key is never accepted as a secret: everyone who knows it could sign. */
function readSecret(spec: SignatureSpec, text: string, field: string): SchemeKey {
  const key = readVerificationKey(spec, text, field);
  if (key.kind === 'hmac' && isPublicKey(text)) {
    const message = `is a public key, which anyone may know; ${spec.name} takes the secret that the publisher signs with`;
    throw new GateConfigurationError(field, message);
  }
  return key;
}

function urlReader({ webhookPublicUrl }: WebhookInputs, { publicUrl }: SignatureSettings): UrlReader {
  if (webhookPublicUrl !== undefined && !URL.canParse(webhookPublicUrl)) {
    throw new GateConfigurationError(
      'webhookPublicUrl',
      'is not an absolute URL, such as https://hooks.example.com/in',
    );
  }
  return ({ path, requestUrl }) => calledUrl({ configuredUrl: webhookPublicUrl, baseUrl: publicUrl, path, requestUrl });
}

/** Refuses everything if the trigger or the service is not set up to verify, rather than pass unjudged deliveries. */
function refusingGate(spec: SignatureSpec, reason: Reason, detail: string): Gate {
  return {
    name: signatureGate.name,
    check: (delivery) => failed(reason, detail, evidenceOf(spec.name, extract(spec, delivery).timestamp)),
  };
}

/** Verifies with the key that the publisher has handed over by the time of the delivery. */
function learningGate(
  spec: SignatureSpec,
  trigger: WebhookTrigger,
  options: SpecGateOptions & Pick<SignatureSettings, 'learnedKeys'>,
): Gate {
  return {
    name: signatureGate.name,
    check(delivery, evidence) {
      const keys = readKeys({ spec }, { ...trigger, keys: keysInForce(trigger, spec, options.learnedKeys) });
      if (keys !== undefined) return specGate(spec, keys, options).check(delivery, evidence);
      const isLost = options.learnedKeys?.isUnreadable({ ...trigger, scheme: spec.name }) === true;
      const gate = isLost
        ? refusingGate(spec, 'verification_unavailable', 'the learned key is sealed with another store key')
        : refusingGate(spec, 'key_not_configured', `no key is known yet: ${spec.name} sends it in a handshake`);
      return gate.check(delivery, evidence);
    },
  };
}

/** For two keys that belong to different forms of a scheme: the current one, then the previous one. */
function eitherGate(current: Gate, previous: Gate): Gate {
  return {
    name: signatureGate.name,
    async check(delivery, evidence) {
      const verdict = await current.check(delivery, evidence);
      if (verdict.passed) return verdict;
      const second = await previous.check(delivery, evidence);
      if (second.passed) return { ...second, evidence: { ...second.evidence, usedPreviousKey: true } };
      // Report the failure in the delivery's own form: in the other form, the signature is missing altogether.
      return verdict.reason === 'signature_missing' ? second : verdict;
    },
  };
}

/**
 * Verifies with the public key of a certificate that the delivery names. All checks that need no certificate come
 * first, so that the service fetches nothing for a delivery that fails them.
 */
function certificateGate(
  spec: SignatureSpec,
  names: KeyPair,
  {
    readUrl,
    certificates,
    isSandbox,
    ...options
  }: SpecGateOptions &
    Pick<SignatureSettings, 'certificates'> & { readonly isSandbox: boolean; readonly limitMs: number | undefined },
): Gate {
  const source = { spec, isSandbox };
  const isTimestampRequired = isRequired(spec, options.requiresTimestamp);
  return {
    name: signatureGate.name,
    async check(delivery) {
      const { url, sentQuery } = readUrl(delivery);
      const request = { delivery, publicUrl: url, sentQuery, allowsSha1: options.allowsSha1 };
      const prepared = prepareVerification(spec, names, request);
      if ('isVerified' in prepared) return verdictOf(spec.name, prepared, isTimestampRequired);
      const evidence = evidenceOf(spec.name, prepared.timestamp);
      const certificateUrl = certificateUrlOf(source, delivery);
      if (certificateUrl === undefined) {
        return failed('signature_malformed', `it does not name a certificate of ${spec.name}`, evidence);
      }
      try {
        if (certificates === undefined) throw new CertificateUnavailableError('NO_FETCHING_HERE');
        const { clientIp } = delivery;
        const key = await answerInTime(() => certificates.keyFor(source, certificateUrl, clientIp), options.limitMs);
        const named = ({ name }: SchemeKey): SchemeKey => ({ kind: 'rsa', key, name });
        const previous = names.previous && named(names.previous);
        const verification = prepared.compare({ current: named(names.current), previous });
        if (verification.isVerified) certificates.remember(clientIp);
        return verdictOf(spec.name, verification, isTimestampRequired);
      } catch (error) {
        // If the certificate is unavailable, the sender did nothing wrong and may send the delivery again.
        const isUnknown = error instanceof CertificateUnavailableError || error instanceof AnswerTimeoutError;
        const reason = isUnknown ? 'verification_unavailable' : 'verifier_error';
        return failed(reason, failureOf(`the certificate of ${spec.name}`, error), evidence);
      }
    },
  };
}

/** By how many seconds a publisher's time limit may be passed, because clocks differ: a minute without a tolerance. */
export const leewayOf = (inputs: WebhookInputs, settings: Pick<GateSettings, 'replayToleranceSeconds'>): number =>
  (inputs.webhookReplayToleranceSeconds ?? settings.replayToleranceSeconds) || 60;

/** Verifies signatures that name their key and algorithm; both count only if the trigger's keys are meant for them. */
function standardGate(
  standard: StandardScheme,
  trigger: WebhookTrigger,
  { readUrl, settings }: { readonly readUrl: UrlReader; readonly settings: SignatureSettings },
): Gate {
  const { name, rule } = standard;
  const { keySets, verifierTimeLimitMs: limitMs } = settings;
  const configured = standardKeys(standard, trigger);
  const { keySetUrl: url } = rule;
  const leewaySeconds = leewayOf(trigger.inputs, settings);
  const keysFor = async (id: string | undefined): Promise<StandardKeys> => {
    if (url === undefined) return configured ?? NO_KEYS;
    if (keySets === undefined) throw new KeySetUnavailableError('NO_FETCHING_HERE');
    return { current: await answerInTime(() => keySets.keysFor(url, id), limitMs), previous: [] };
  };
  return {
    name: signatureGate.name,
    async check(delivery) {
      if (url === undefined && configured === undefined) {
        return failed(
          'key_not_configured',
          'the trigger has no webhookHmacKey and no webhookJwksUrl',
          evidenceOf(name),
        );
      }
      try {
        const verification = await verifyStandard(rule, {
          delivery,
          publicUrl: readUrl(delivery).url,
          leewaySeconds,
          keysFor,
        });
        return verdictOf(name, verification, rule.requiresTimestamp);
      } catch (error) {
        // If the key set is unavailable, the sender did nothing wrong and may send the delivery again.
        const isUnknown = error instanceof KeySetUnavailableError || error instanceof AnswerTimeoutError;
        const reason = isUnknown ? 'verification_unavailable' : 'verifier_error';
        const who = isUnknown ? 'the key set of the trigger' : name;
        return failed(reason, failureOf(who, error), evidenceOf(name));
      }
    },
  };
}

const NO_KEYS: StandardKeys = { current: [], previous: [] };

/** Undefined without a current key, as for other schemes. */
function standardKeys({ name, rule }: StandardScheme, { keys, inputs }: WebhookTrigger): StandardKeys | undefined {
  if (keys.current === undefined) return undefined;
  const [current, previous] = keyFields(inputs);
  const place = { scheme: name, encoding: rule.keyEncoding };
  return {
    current: readVerifyingKeys(keys.current, { ...place, field: current }),
    previous: keys.previous === undefined ? [] : readVerifyingKeys(keys.previous, { ...place, field: previous }),
  };
}

/** The fields that the current and the previous key are read from. */
function keyFields({ webhookHmacKey, webhookHmacKeyPrevious }: WebhookInputs) {
  return [
    webhookHmacKey === undefined ? 'webhookSecret' : 'webhookHmacKey',
    webhookHmacKeyPrevious === undefined ? 'webhookSecretPrevious' : 'webhookHmacKeyPrevious',
  ] as const;
}

export function isRequired(spec: SignatureSpec, requiresTimestamp: boolean): boolean {
  return spec.timestamp !== undefined && (requiresTimestamp || spec.requiresTimestamp === true);
}

function specGate(spec: SignatureSpec, keys: KeyPair, options: SpecGateOptions): Gate {
  const { readUrl, requiresTimestamp, allowsSha1 } = options;
  const isTimestampRequired = isRequired(spec, requiresTimestamp);
  return {
    name: signatureGate.name,
    check(delivery) {
      try {
        const { url, sentQuery } = readUrl(delivery);
        const verification = verifyWithSpec(spec, keys, { delivery, publicUrl: url, sentQuery, allowsSha1 });
        const verdict = verdictOf(spec.name, verification, isTimestampRequired);
        if (verdict.passed || verdict.reason !== 'signature_missing' || spec.timestamp?.in !== 'signature')
          return verdict;
        return { ...verdict, evidence: { ...verdict.evidence, lacksTimestampWithSignature: true } };
      } catch (error) {
        // The operator's payload builder failed; whatever the error, this delivery was not verified.
        return failed('verifier_error', failureOf(`verifier "${spec.name}"`, error), evidenceOf(spec.name));
      }
    },
  };
}

function verdictOf(
  scheme: string,
  verification: ReturnType<typeof verifyWithSpec>,
  isTimestampRequired: boolean,
): Verdict {
  const evidence = evidenceOf(scheme, verification.timestamp);
  if (!verification.isVerified) return failed(verification.reason, verification.detail, evidence);
  const problem = timestampProblem(verification.timestamp, isTimestampRequired);
  if (problem !== undefined) return failed(problem.reason, problem.detail, evidence);
  const { usedPreviousKey, signedBytesSha256, verifiedHeaders, isOneOfSeveral } = verification;
  const signed = { ...(signedBytesSha256 && { signedBytesSha256 }), ...(verifiedHeaders && { verifiedHeaders }) };
  const proof = { isVerified: true, usedPreviousKey, ...signed, ...(isOneOfSeveral && { isOneOfSeveral }) };
  return { passed: true, evidence: { ...evidence, ...proof } };
}

function verifierGate(
  verifier: SignatureVerifier,
  readKeysInForce: () => WebhookTrigger['keys'],
  { readUrl, limitMs }: { readUrl: UrlReader; limitMs: number | undefined },
): Gate {
  return {
    name: signatureGate.name,
    async check(delivery) {
      try {
        const keys = readKeysInForce();
        const request = { delivery: copyOf(delivery), keys: { ...keys }, publicUrl: readUrl(delivery).url };
        const ask = (signal: AbortSignal) => verifier.verify({ ...request, signal });
        return await answerInTime(async (signal) => answerOf(verifier, await ask(signal), keys), limitMs);
      } catch (error) {
        // The verifier failed; whatever the error, this delivery was not verified.
        return failed('verifier_error', failureOf(`verifier "${verifier.name}"`, error), evidenceOf(verifier.name));
      }
    },
  };
}

function answerOf({ name }: SignatureVerifier, result: VerificationResult, keys: WebhookTrigger['keys']): Verdict {
  switch (result.outcome) {
    case 'refused':
      return failed('signature_mismatch', sentenceOf(result.reason, keys), evidenceOf(name));
    case 'verified':
    case 'verifiedWithPreviousKey': {
      const ms = result.signedTimestampMs;
      const timestamp = ms === undefined ? undefined : { text: String(ms), ms };
      const evidence = evidenceOf(name, timestamp);
      const problem = timestampProblem(timestamp, false);
      if (problem !== undefined) return failed(problem.reason, problem.detail, evidence);
      const usedPreviousKey = result.outcome === 'verifiedWithPreviousKey';
      const verified = { ...evidence, isVerified: true, usedPreviousKey };
      const bytes = result.signedBytes;
      if (bytes === undefined) return { passed: true, evidence: verified };
      const signedBytesSha256 = createHash('sha256').update(bytes).digest('hex');
      return { passed: true, evidence: { ...verified, signedBytesSha256 } };
    }
    default:
      // Plain JavaScript may return anything, such as `true`: an unknown outcome gives no access.
      return failed('verifier_error', `verifier "${name}" returned no known outcome`, evidenceOf(name));
  }
}

function timestampProblem(
  timestamp: SignedTimestamp | undefined,
  isRequired: boolean,
): { reason: Reason; detail: string } | undefined {
  if (timestamp === undefined) {
    return isRequired ? { reason: 'timestamp_missing', detail: 'the signed timestamp is absent' } : undefined;
  }
  if (Number.isFinite(timestamp.ms)) return undefined;
  return {
    reason: 'timestamp_malformed',
    detail: 'the signed timestamp does not have the format of the scheme',
  };
}

function evidenceOf(scheme: string, signedTimestamp?: SignedTimestamp): Evidence {
  return { scheme, isVerified: false, usedPreviousKey: false, ...(signedTimestamp && { signedTimestamp }) };
}

function failed(reason: Reason, detail: string, evidence: Evidence): Verdict {
  return { passed: false, reason, detail, evidence };
}

/** The URL that a publisher called, and its end, which no configuration vouches for. */
interface CalledUrl {
  readonly url: string;
  /** The query of the request, with the character in front of it; empty if there is none. */
  readonly sentQuery: string;
}

/** The URL that a publisher called, from the configuration or else from the request. */
export function calledUrl({
  configuredUrl,
  baseUrl,
  path,
  requestUrl,
}: {
  /** The trigger's own; absolute. */
  readonly configuredUrl: string | undefined;
  /** The service's base URL; the request's path is appended. */
  readonly baseUrl: string | undefined;
  /** Path and query as on the request line. */
  readonly path: string;
  readonly requestUrl: string;
}): CalledUrl {
  if (configuredUrl !== undefined) return withQuery(withoutFragment(configuredUrl), queryOf(withoutFragment(path)));
  const url = withoutFragment(baseUrl === undefined ? requestUrl : `${baseUrl.replace(/\/$/, '')}${path}`);
  const at = url.indexOf('?');
  return { url, sentQuery: at === -1 ? '' : url.slice(at) };
}

/**
 * A configured query is the publisher's own and stays as it is, unless the request continues it: Twilio adds its
 * parameters to the ones that are configured.
 */
function withQuery(url: string, query: string): CalledUrl {
  const configured = queryOf(url);
  if (configured === '') {
    const sentQuery = query === '' ? '' : `?${query}`;
    return { url: `${url.replace(/\?$/, '')}${sentQuery}`, sentQuery };
  }
  const sentQuery = query.startsWith(`${configured}&`) ? query.slice(configured.length) : '';
  return { url: `${url}${sentQuery}`, sentQuery };
}

function queryOf(url: string): string {
  const at = url.indexOf('?');
  return at === -1 ? '' : url.slice(at + 1);
}
