import { isSame } from '../../manifest/diff.ts';
import { WEBHOOK_FIELDS, type WebhookInputs } from '../../manifest/webhook-inputs.ts';
import type { Finding } from '../../model/finding.ts';
import { ENFORCEMENT_MODES } from '../../model/manifest.ts';
import { type ChangeRule, findingAt, jsonOf, type WebhookPair, webhookPairs } from './change.ts';
import { learnsKey } from './secrets.ts';

/** Spoken of by rules of their own. */
const ELSEWHERE: ReadonlySet<string> = new Set([
  'webhookSlug',
  ...WEBHOOK_FIELDS.secret,
  'webhookIpAllowList',
  'webhookIpDenyList',
  'webhookIpAllowListPreset',
  'webhookIpAllowListPresets',
]);

const CLASSES = { weaker: 'caution', other: 'caution', stronger: 'safe', same: 'safe' } as const;
const RULES = {
  weaker: 'gate-weakened',
  other: 'gate-changed',
  stronger: 'gate-strengthened',
  same: 'webhook-answer-changed',
} as const;

/** Every other field of a webhook trigger: who gets in, and what is answered. No run in flight reads any of them. */
const gatesChanged: ChangeRule = (change) =>
  webhookPairs(change).flatMap(({ key, before, after }) =>
    fieldsOf(before, after).map((field): Finding => {
      const judge = FIELD_RULES[field];
      const verdict: FieldVerdict = judge?.(before, after) ?? {
        effect: 'other',
        consequence: 'After the deploy, different deliveries may pass.',
      };
      const { effect, consequence } = verdict;
      return findingAt(['triggers', key, 'inputs', field], {
        rule: RULES[effect],
        class: CLASSES[effect],
        before: jsonOf(before[field]),
        after: jsonOf(after[field]),
        message: `${field} of \`${key}\` ${verbOf(before[field], after[field])}.`,
        consequence: `${consequence} Runs in flight are not affected.`,
        ...(effect === 'weaker' || effect === 'other'
          ? { advice: 'Check that this is intended: it decides who may start runs.' }
          : {}),
      });
    }),
  );

function fieldsOf(before: WebhookInputs, after: WebhookInputs): (keyof WebhookInputs)[] {
  const fields = new Set([...WEBHOOK_FIELDS.all, ...Object.keys(before), ...Object.keys(after)]);
  return [...fields].filter(isField).filter((field) => {
    return !ELSEWHERE.has(field) && !isSame(jsonOf(before[field]), jsonOf(after[field]));
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
}

type FieldRule = (before: WebhookInputs, after: WebhookInputs) => FieldVerdict;

const verdict = (effect: FieldVerdict['effect'], consequence: string): FieldVerdict => ({ effect, consequence });

const otherSignature: FieldRule = () =>
  verdict('other', 'Signatures are read differently: deliveries that passed may be refused, and others may pass.');

const answer: FieldRule = () => verdict('same', 'Only the answer changes, not who gets in.');

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

function allowSha1({ webhookAllowSha1: before }: WebhookInputs, { webhookAllowSha1: after }: WebhookInputs) {
  if ((before ?? false) === (after ?? false)) return verdict('same', 'false is the default.');
  return after === true
    ? verdict('weaker', 'Signatures made with SHA-1 pass, even if SHA-1 is turned off for the service.')
    : verdict('stronger', 'Signatures made with SHA-1 pass only if SHA-1 is turned on for the service.');
}

function mode({ webhookEnforcementMode: before }: WebhookInputs, { webhookEnforcementMode: after }: WebhookInputs) {
  if (after === undefined)
    return verdict('weaker', 'The mode of the service applies (Off by default): it may refuse less.');
  if (after === 'Enforce') return verdict('stronger', 'Deliveries that fail a gate are refused.');
  const meaning =
    after === 'Off' ? 'Violations are recorded and accepted.' : 'Violations are logged, recorded and accepted.';
  if (before === undefined)
    return verdict('weaker', `${meaning} The mode of the service, which applied before, may be stricter.`);
  return verdict(ENFORCEMENT_MODES.indexOf(after) < ENFORCEMENT_MODES.indexOf(before) ? 'weaker' : 'stronger', meaning);
}

function tolerance(
  { webhookReplayToleranceSeconds: before }: WebhookInputs,
  { webhookReplayToleranceSeconds: after }: WebhookInputs,
) {
  if (after === undefined) return verdict('weaker', 'The tolerance of the service applies, if it sets one.');
  if (after === 0) return verdict('weaker', 'The age of a delivery is no longer checked.');
  if (before === undefined) {
    return verdict(
      'stronger',
      'Older deliveries fail the gate. It replaces the tolerance of the service, if that sets one.',
    );
  }
  if (before === 0 || after < before) return verdict('stronger', 'Older deliveries fail the gate.');
  return verdict(
    'weaker',
    'Older deliveries pass; one that was accepted long ago, and whose nonce has since expired, could be replayed.',
  );
}

function nonceHeader({ webhookNonceHeader: before }: WebhookInputs, { webhookNonceHeader: after }: WebhookInputs) {
  if (before?.toLowerCase() === after?.toLowerCase()) return verdict('same', 'Header names are case-insensitive.');
  if (before === undefined)
    return verdict('stronger', 'This header identifies deliveries; a repeated value is a replay.');
  return verdict(
    'weaker',
    after === undefined
      ? 'A hash identifies deliveries if a tolerance is set; otherwise nothing does, and replays may pass.'
      : 'A delivery that was accepted under its old nonce now has a different one: it could be replayed once.',
  );
}

function requireTimestamp(_: WebhookInputs, { webhookRequireTimestamp: after }: WebhookInputs) {
  if (after === true) return verdict('stronger', 'Deliveries without a timestamp fail the gate.');
  return verdict('weaker', 'Deliveries without a timestamp pass if the scheme does not sign one.');
}

/** A limit of deliveries: more is weaker; without one the service's applies. */
function limit(field: 'webhookRateLimitPermitsPerSecond' | 'webhookRateLimitBurstSize'): FieldRule {
  return ({ [field]: before }, { [field]: after }) => {
    if (after === undefined)
      return verdict('weaker', 'The limit of the service applies; without one there is no limit.');
    if (before === undefined) {
      return verdict(
        'stronger',
        'Deliveries beyond it fail the gate. It replaces the limit of the service, if that sets one.',
      );
    }
    return after > before
      ? verdict('weaker', 'More deliveries pass.')
      : verdict('stronger', 'Fewer deliveries pass, and the count restarts.');
  };
}

/** More is weaker; with or without it the trigger's own limit counts other deliveries. */
function unverifiedLimit(before: WebhookInputs, after: WebhookInputs) {
  const rates = [before, after].map(({ webhookRateLimitUnverifiedPermitsPerSecond: rate }) => rate);
  const bursts = [before, after].map(({ webhookRateLimitUnverifiedBurstSize: burst }) => burst);
  const [[rateBefore, rateAfter], [burstBefore, burstAfter]] = [rates, bursts];
  if (rateAfter === undefined) {
    return verdict(
      'other',
      'Each delivery counts for the limit of the trigger again, before its signature is checked.',
    );
  }
  if (rateBefore === undefined) {
    return verdict(
      'other',
      'Each address has a limit before the signature check; the limit of the trigger counts only verified deliveries.',
    );
  }
  const isMore =
    rateAfter > rateBefore || (burstAfter ?? Math.ceil(rateAfter)) > (burstBefore ?? Math.ceil(rateBefore));
  return isMore
    ? verdict('weaker', 'More deliveries from each address reach the signature check.')
    : verdict('stronger', 'Fewer deliveries from each address reach the signature check.');
}

function perIp(_: WebhookInputs, { webhookRateLimitPerIp: after }: WebhookInputs) {
  return after === true
    ? verdict('weaker', 'Each address has its own limit: there is no limit for all of them together.')
    : verdict(
        after === false ? 'stronger' : 'other',
        'One limit applies to all addresses, unless the service sets otherwise.',
      );
}

function manySignatures(_: WebhookInputs, { webhookAcceptMultipleSignatures: after }: WebhookInputs) {
  return after === true
    ? verdict('weaker', 'Every signature that a delivery carries is tried.')
    : verdict('stronger', 'One signature of a delivery is tried.');
}

function versions(
  { webhookAcceptedVersions: before }: WebhookInputs,
  { webhookAcceptedVersions: after }: WebhookInputs,
) {
  if (before === undefined || after === undefined) return otherSignature({}, {});
  return after.every((version) => before.includes(version))
    ? verdict('stronger', 'Signatures of fewer versions are read.')
    : verdict('weaker', 'Signatures of more versions are read.');
}

function bodySchema({ webhookBodySchema: before }: WebhookInputs, { webhookBodySchema: after }: WebhookInputs) {
  if (after === undefined) return verdict('weaker', 'Bodies of any structure pass.');
  if (before === undefined) return verdict('stronger', 'Bodies that do not match the schema fail the gate.');
  return verdict('other', 'Bodies that matched the old schema may be refused, and others may pass.');
}

function publicUrl(): FieldVerdict {
  return verdict('other', 'If the scheme signs the URL, signatures are now checked against the new one.');
}

/** By field; one that is not here counts as a change of who gets in. */
const FIELD_RULES: { readonly [Field in keyof WebhookInputs]?: FieldRule } = {
  webhookSignatureScheme: scheme,
  webhookLearnKey: learnKey,
  webhookAllowSha1: allowSha1,
  webhookEnforcementMode: mode,
  webhookReplayToleranceSeconds: tolerance,
  webhookNonceHeader: nonceHeader,
  webhookRequireTimestamp: requireTimestamp,
  webhookRateLimitUnverifiedPermitsPerSecond: unverifiedLimit,
  webhookRateLimitUnverifiedBurstSize: unverifiedLimit,
  webhookRateLimitPermitsPerSecond: limit('webhookRateLimitPermitsPerSecond'),
  webhookRateLimitBurstSize: limit('webhookRateLimitBurstSize'),
  webhookRateLimitPerIp: perIp,
  webhookAcceptMultipleSignatures: manySignatures,
  webhookAcceptedVersions: versions,
  webhookPublicUrl: publicUrl,
  webhookBodySchema: bodySchema,
  webhookDuplicateResponse: answer,
  webhookResponse: answer,
  webhookHoldDeliveries: () => verdict('same', 'It matters while the flow is disabled or drained.'),
  webhookSignatureHeader: otherSignature,
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
};

const ALLOW_FIELDS = ['webhookIpAllowList', 'webhookIpAllowListPreset', 'webhookIpAllowListPresets'] as const;

/** Who may deliver by address: the sources of the allow list are one list, as the gate reads them. */
const ipListsChanged: ChangeRule = (change) =>
  webhookPairs(change).flatMap((pair) => [...allowFindings(pair), ...denyFindings(pair)]);

function allowFindings({ key, before, after }: WebhookPair): Finding[] {
  const fields = ALLOW_FIELDS.filter((field) => !isSame(jsonOf(before[field]), jsonOf(after[field])));
  const one = allowEntries(before);
  const other = allowEntries(after);
  const added = [...other].filter((entry) => !one.has(entry));
  const removed = [...one].filter((entry) => !other.has(entry));
  const isOpened = one.size > 0 && (other.size === 0 || added.length > 0);
  return fields.map((field) =>
    findingAt(['triggers', key, 'inputs', field], {
      before: jsonOf(before[field]),
      after: jsonOf(after[field]),
      ...(isOpened
        ? weakened(key, other.size === 0 ? 'Every address may deliver.' : `These may deliver too: ${added.join(', ')}.`)
        : strengthened(key, one.size === 0 ? 'Only the addresses of the list may deliver.' : gone(removed))),
    }),
  );
}

function denyFindings({ key, before, after }: WebhookPair): Finding[] {
  const { webhookIpDenyList: one = [] } = before;
  const { webhookIpDenyList: other = [] } = after;
  if (isSame(jsonOf(before.webhookIpDenyList), jsonOf(after.webhookIpDenyList))) return [];
  const freed = one.filter((entry) => !other.map(normal).includes(normal(entry)));
  return [
    findingAt(['triggers', key, 'inputs', 'webhookIpDenyList'], {
      before: jsonOf(before.webhookIpDenyList),
      after: jsonOf(after.webhookIpDenyList),
      ...(freed.length > 0
        ? weakened(key, `These are no longer refused: ${freed.join(', ')}.`)
        : strengthened(key, 'No address that was refused before may deliver now.')),
    }),
  ];
}

function weakened(key: string, consequence: string): Omit<Finding, 'path'> {
  return {
    rule: 'gate-weakened',
    class: 'caution',
    message: `The address gate of \`${key}\` accepts more addresses.`,
    consequence: `${consequence} Entries are compared as written, so a range inside another one counts as new. Runs in flight are not affected.`,
    advice: 'Check that this is intended: it decides who may start runs.',
  };
}

function strengthened(key: string, consequence: string): Omit<Finding, 'path'> {
  return {
    rule: 'gate-strengthened',
    class: 'safe',
    message: `The address gate of \`${key}\` accepts no address that it refused before.`,
    consequence: `${consequence} Runs in flight are not affected.`,
  };
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

export const gateRules: readonly ChangeRule[] = [ipListsChanged, gatesChanged];
