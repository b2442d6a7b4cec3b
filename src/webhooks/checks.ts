import type { JsonPath } from '../expressions/json-path.ts';
import { didYouMean, errorAt, gateWarningAt, type Problem, warningAt } from '../manifest/issues.ts';
import type { ManifestRules } from '../manifest/load.ts';
import { objectsOf } from '../manifest/trigger-objects.ts';
import { triggerWarnings } from '../manifest/webhook-fields.ts';
import type { WebhookInputs, WebhookTrigger } from '../manifest/webhook-inputs.ts';
import { inertType } from '../model/inert-content.ts';
import type { EnforcementMode } from '../model/manifest.ts';
import type { Gate } from './gate.ts';
import type { GatePreparer } from './gates/index.ts';
import { allowsSha1, type SignatureSettings, usesSha1 } from './gates/signature.ts';
import { handsOverKey } from './keys-in-force.ts';
import { findPreset, presetConcern } from './networks/presets.ts';
import { readerProblems } from './reading.ts';
import { unreadFields } from './scheme-fields.ts';
import { coversBody, hasPart, isInPlace, layoutOf, nameOf, openBoundaries, strategyOf } from './schemes/layout.ts';
import { namedSchemes } from './schemes/names.ts';
import { findScheme, namedScheme, type ResolvedScheme, type SchemeRegistry } from './schemes/resolve.ts';
import type { Conversation, SignatureSpec } from './schemes/spec.ts';
import { checkStandard } from './standard-checks.ts';
import { eventIdentityOf } from './trigger-expressions.ts';
import { weaknessesOf } from './weaknesses.ts';

type Field = keyof WebhookInputs;
type FieldReport = (field: Field, message: string) => void;

/** Where findings about one trigger go. */
interface TriggerReports {
  readonly error: (field: string | undefined, message: string) => void;
  /** Something that weakens one gate, or all gates together. */
  readonly weakness: (field: Field | undefined, message: string) => void;
  /** A gate that the manifest asks for but that will be skipped. */
  readonly skipped: FieldReport;
  readonly warning: FieldReport;
}

/**
 * Prepares the gates of every webhook trigger when a manifest loads, so that an unusable field stops the load instead
 * of the first delivery. Also reports what each scheme leaves open.
 */
export function webhookChecks(
  preparer: GatePreparer,
  /** The mode of triggers that set none; Off by default, as in the settings. */
  defaultMode: EnforcementMode = 'Off',
): ManifestRules['checks'][number] {
  const { settings } = preparer;
  return ({ webhooks }) =>
    webhooks.flatMap((trigger) => {
      const { inputs, triggerKey } = trigger;
      const problems: Problem[] = [];
      const at = (field: string | undefined): JsonPath =>
        field === undefined ? ['triggers', triggerKey] : ['triggers', triggerKey, 'inputs', field];
      const reports: TriggerReports = {
        error: (field, message) => problems.push(errorAt(at(field), message)),
        weakness: (field, message) => problems.push(gateWarningAt(at(field), message)),
        skipped: (field, message) => problems.push({ ...gateWarningAt(at(field), message), skipsGate: true }),
        warning: (field, message) => problems.push(warningAt(at(field), message)),
      };
      const { scheme, gates, mistakes } = preparer.prepare(trigger);
      for (const { field, message } of mistakes) reports.error(field, message);
      problems.push(...readerProblems(trigger, scheme));
      checkSchemeName(inputs, settings.schemes, reports);
      const unread = unreadFields(inputs, settings.schemes);
      for (const { field, scheme, readers } of unread) {
        const why = scheme === undefined ? ': webhookSignatureScheme is missing' : ` by ${scheme}`;
        reports.error(field, `is not read${why}; schemes that read it: ${readers.join(', ')}`);
      }
      if (mistakes.length + unread.length > 0) return problems;
      const subject = { trigger, scheme, settings };
      checkSet(trigger, gates, reports);
      checkSharing(inputs, reports);
      checkParts(subject, defaultMode, reports);
      checkResponse(inputs, reports);
      checkWeaknesses(subject, reports);
      checkCoverage(subject, reports);
      checkReplay(subject, defaultMode, reports);
      checkEventId(subject, reports);
      problems.push(...objectProblems(subject, inputs.webhookEnforcementMode ?? defaultMode));
      checkHandshakes(subject, reports);
      checkPresets(inputs, settings.clock.now(), reports);
      return problems;
    });
}

function checkSharing({ webhookShared, webhookSlug, webhookLearnKey }: WebhookInputs, { error }: TriggerReports): void {
  if (webhookShared !== true) return;
  if (webhookSlug === undefined)
    error('webhookShared', 'has no effect without webhookSlug: the id of a flow is its own');
  if (webhookLearnKey === true)
    error('webhookShared', 'is not possible with webhookLearnKey: each trigger learns its own key');
}

/** Warns about a content type that is replaced: publishers may parse the body by its type. */
function checkResponse({ webhookResponse }: WebhookInputs, { warning }: TriggerReports): void {
  const { contentType } = webhookResponse ?? {};
  if (contentType === undefined || !/^[^;]*xml/i.test(contentType)) return;
  const sent = inertType(contentType);
  if (sent !== undefined) warning('webhookResponse', `is sent as ${sent}, because browsers run scripts in XML`);
}

function checkSchemeName(inputs: WebhookInputs, schemes: SchemeRegistry, { skipped }: TriggerReports): void {
  const name = inputs.webhookSignatureScheme;
  if (name === undefined || findScheme(schemes, name) !== undefined) return;
  const known = namedSchemes(schemes).flatMap((scheme) => [scheme.name, ...scheme.aliases]);
  skipped(
    'webhookSignatureScheme',
    `"${name}" is not a known scheme: the signature gate will be skipped${didYouMean(name, known)}`,
  );
}

/** Gates that do not ask who the sender is. */
const ASKS_NO_SENDER: ReadonlySet<string> = new Set(['rateLimit', 'unverifiedRateLimit', 'replay', 'bodySchema']);

/** Checks the gates as a set: each can be right, and still anyone may pass all of them. */
function checkSet({ inputs }: WebhookTrigger, gates: readonly Gate[], { weakness }: TriggerReports): void {
  const asking = gates.map(({ name }) => name).filter((name) => !ASKS_NO_SENDER.has(name));
  if (asking.some((name) => name !== 'ip')) return;
  const allowField = ALLOW_FIELDS.find((field) => inputs[field] !== undefined);
  if (allowField !== undefined) {
    weakness(allowField, 'is the only gate that asks who sends: anyone who can send from these addresses is trusted');
    return;
  }
  // An unknown scheme, or a key without a scheme, has its own message.
  const namesSigner = inputs.webhookSignatureScheme ?? inputs.webhookHmacKey ?? inputs.webhookSecret;
  if (namesSigner !== undefined) return;
  const which =
    gates.length === 0
      ? 'has no gate'
      : `has no gate that asks who sends (${gates.map(({ name }) => name).join(', ')})`;
  weakness(
    undefined,
    `${which}: anyone who reaches the URL starts runs; set webhookSignatureScheme and webhookHmacKey`,
  );
}

const ALLOW_FIELDS = [
  'webhookIpAllowList',
  'webhookIpAllowListPreset',
  'webhookIpAllowListPresets',
] as const satisfies readonly Field[];

/** A trigger whose gates can be prepared, and the scheme that it names. */
interface FitTrigger {
  readonly trigger: WebhookTrigger;
  readonly scheme: ResolvedScheme | undefined;
  readonly settings: SignatureSettings;
}

function checkWeaknesses({ trigger, scheme }: FitTrigger, reports: TriggerReports): void {
  const specs = scheme?.kind === 'spec' ? ([scheme.spec, scheme.previousSpec ?? scheme.spec] as const) : undefined;
  const standard = scheme?.kind === 'standard' ? scheme.standard : undefined;
  for (const { field, message, isOpen } of weaknessesOf(trigger, specs ?? standard)) {
    reports[isOpen ? 'weakness' : 'warning'](field, message);
  }
}

/** Anyone who holds a delivery can change its unsigned parts. Only a verifier's own code knows what it covers. */
function checkCoverage({ trigger, scheme, settings }: FitTrigger, reports: TriggerReports): void {
  if (scheme?.kind === 'standard') checkStandard({ trigger, settings }, scheme.standard, reports);
  if (scheme?.kind !== 'spec') return;
  checkSha1(trigger.inputs, scheme.spec, { settings, reports });
  checkTimestampHeader(trigger.inputs, scheme.spec, reports);
  checkTimestampKey(trigger.inputs, scheme.spec, reports);
  checkNonceHeader(trigger.inputs, scheme.spec, reports);
  checkPublicUrl(trigger.inputs, scheme.spec, { settings, reports });
  checkDelimiter(scheme.spec, reports);
  checkBoundaries(trigger.inputs, scheme.spec, reports);
  checkToken(scheme, reports);
  const { name } = scheme.spec;
  const unsigned = unsignedOf(scheme.spec);
  if (unsigned === undefined || namesNonce(trigger.inputs, settings)) return;
  const message = `${name} does not sign the ${unsigned}: without webhookReplayToleranceSeconds one captured signature passes with any ${unsigned}, forever`;
  reports.weakness('webhookSignatureScheme', message);
}

/** The part of the body that a captured signature leaves open; undefined if there is none, or if only code knows. */
function unsignedOf(spec: SignatureSpec): string | undefined {
  const { signs } = spec;
  if (signs.length === 0 || coversBody(spec) || hasPart(signs, 'built')) return undefined;
  const isMember = signs.some((it) => typeof it !== 'string' && it.part === 'field' && it.isToken !== true);
  return isMember ? 'rest of the body' : 'body';
}

/** Warns only if the publisher can do better. Else a warning could not be acted on; the grade says what is open. */
function checkToken({ spec, previousSpec }: ResolvedSpec, { warning }: TriggerReports): void {
  const form = [spec, previousSpec].find((each) => each?.algorithm === 'token' && each.keyForm !== undefined);
  if (form?.keyForm === undefined) return;
  warning(
    'webhookSignatureScheme',
    `${form.name} signs nothing and sends a token: anyone who captures one delivery can send anything; a key that begins with ${form.keyForm.prefix} makes ${form.name} sign`,
  );
}

function namesNonce(inputs: WebhookInputs, settings: SignatureSettings): boolean {
  const toleranceSeconds = inputs.webhookReplayToleranceSeconds ?? settings.replayToleranceSeconds;
  return toleranceSeconds > 0 || inputs.webhookNonceHeader !== undefined;
}

/** Reports new deliveries that would count as replays, and replays that would count as new deliveries. */
function checkReplay(
  { trigger: { inputs }, scheme, settings }: FitTrigger,
  defaultMode: EnforcementMode,
  { warning }: TriggerReports,
): void {
  if (inputs.webhookNonceHeader !== undefined) return;
  const spec = scheme?.kind === 'spec' ? scheme.spec : undefined;
  const idHeader = spec?.headers[0]?.deliveryId;
  if (namesNonce(inputs, settings)) {
    if (hasTimestamp(scheme, inputs)) return;
    const advice =
      idHeader === undefined
        ? 'name the header that carries a unique id for every delivery, or set webhookReplayToleranceSeconds to 0'
        : `name ${idHeader}`;
    const message = `is missing: there is a tolerance but no ${spec === undefined ? '' : 'signed '}timestamp, so a second delivery with the same body counts as a replay for ${settings.nonceTtlSeconds} s; ${advice}`;
    warning('webhookNonceHeader', message);
    return;
  }
  const mode = inputs.webhookEnforcementMode ?? defaultMode;
  if (scheme === undefined || mode !== 'Enforce' || (spec !== undefined && unsignedOf(spec) !== undefined)) return;
  const { name } = namedScheme(scheme);
  const suffix = idHeader === undefined ? '' : `, or webhookNonceHeader to ${idHeader}`;
  warning(
    'webhookReplayToleranceSeconds',
    `is 0 and no webhookNonceHeader is named: a captured delivery of ${name} starts a run each time it is sent again; set it, for example to 300${suffix}`,
  );
}

/** Reports the warnings of features about their own fields. */
function checkParts(
  { trigger: { inputs }, scheme }: FitTrigger,
  defaultMode: EnforcementMode,
  { warning }: TriggerReports,
): void {
  const inForce = { mode: inputs.webhookEnforcementMode ?? defaultMode, verifies: scheme !== undefined };
  for (const warnings of triggerWarnings) {
    for (const [field, message] of Object.entries(warnings(inputs, inForce))) {
      if (message !== undefined) warning(field as Field, message);
    }
  }
}

/** The problems that features find in the trigger's objects, which are not part of its inputs. */
function objectProblems({ trigger, scheme }: FitTrigger, mode: EnforcementMode): Problem[] {
  const facts = {
    mode,
    isShared: trigger.inputs.webhookShared === true,
    verifies: scheme !== undefined,
    eventDays: eventIdentityOf(trigger, scheme)?.days,
  };
  return objectsOf(trigger).flatMap(([name, object, written]) =>
    object.problems(written, facts).map(({ kind, field, message }) => {
      const path = ['triggers', trigger.triggerKey, name, ...(field === undefined ? [] : [field])];
      return PROBLEMS[kind](path, message);
    }),
  );
}

const PROBLEMS = { error: errorAt, warning: warningAt, weakness: gateWarningAt };

/** Warns only about an id that the trigger names: an id from the scheme is used only if it is signed. */
function checkEventId({ trigger, scheme }: FitTrigger, { warning }: TriggerReports): void {
  const { inputs } = trigger;
  const identity = eventIdentityOf(trigger, scheme);
  if (inputs.webhookEventIdDays !== undefined && identity === undefined) {
    const why = inputs.webhookEventId === undefined ? 'no webhookEventId names the event' : 'webhookEventId is off';
    warning('webhookEventIdDays', `is ignored: ${why}`);
  }
  const { unsigned = [] } = identity ?? {};
  // The publisher offers nothing better, so a warning could not be acted on.
  if (unsigned.length === 0 || identity?.by !== 'trigger') return;
  const why =
    scheme === undefined ? 'without a scheme nothing is signed' : `${namedScheme(scheme).name} does not sign that`;
  const message = `reads ${unsigned.join(' and ')}: ${why}, so whoever holds a delivery can start another run, or hide an event, with another value there`;
  warning('webhookEventId', message);
}

/** Whether timestamps distinguish deliveries with the same body; assumed for verifiers, whose code alone knows. */
function hasTimestamp(scheme: ResolvedScheme | undefined, { webhookTimestampHeader }: WebhookInputs): boolean {
  if (scheme === undefined) return webhookTimestampHeader !== undefined;
  if (scheme.kind === 'standard') return scheme.standard.rule.requiresTimestamp;
  return scheme.kind === 'verifier' || scheme.spec.timestamp !== undefined;
}

/** Without a public URL, the URL is taken from the Host header, which the sender of the request writes. */
function checkPublicUrl(
  { webhookPublicUrl }: WebhookInputs,
  spec: SignatureSpec,
  { settings, reports }: { settings: SignatureSettings; reports: TriggerReports },
): void {
  if (!hasPart(spec.signs, 'url', 'host') || webhookPublicUrl !== undefined || settings.publicUrl !== undefined) return;
  reports.weakness(
    'webhookPublicUrl',
    `is missing, and so is SLUICE_PUBLIC_URL: ${spec.name} signs the URL, which is then taken from the headers of the request`,
  );
}

/** Not a weakness: deliveries that could be read in two ways are refused. */
function checkDelimiter(spec: SignatureSpec, { warning }: TriggerReports): void {
  if (!layoutOf(spec).boundaries.some(({ certainty }) => certainty === 'conditional')) return;
  warning(
    'webhookSignedPayloadDelimiter',
    'does not define where the timestamp ends: deliveries whose body begins with a digit are refused',
  );
}

/** Anyone who holds one delivery can make others from it; the grade says so, too. */
function checkBoundaries(
  { webhookSignedPayload }: WebhookInputs,
  spec: SignatureSpec,
  { weakness }: TriggerReports,
): void {
  if (webhookSignedPayload === undefined) return;
  for (const { left, right } of openBoundaries(spec)) {
    weakness(
      'webhookSignedPayload',
      `nothing tells where ${nameOf(left)} ends and ${nameOf(right)} begins: who captures a delivery can move characters between the two`,
    );
  }
}

function checkHandshakes({ trigger, scheme: resolved, settings }: FitTrigger, reports: TriggerReports): void {
  const scheme = resolved && namedScheme(resolved);
  checkLearning(trigger.inputs, scheme, { isSpec: resolved?.kind === 'spec', settings, reports });
  checkVerifyToken(trigger, scheme, reports);
}

type ResolvedSpec = Extract<ResolvedScheme, { kind: 'spec' }>;
type Scheme = Conversation & { readonly name: string };

/** Checks where the trigger's key comes from, since its publisher may hand it over. */
function checkLearning(
  inputs: WebhookInputs,
  scheme: Scheme | undefined,
  { isSpec, settings, reports }: { isSpec: boolean; settings: SignatureSettings; reports: TriggerReports },
): void {
  const keyField = (['webhookHmacKey', 'webhookSecret'] as const).find((field) => inputs[field] !== undefined);
  const isHandedOver = scheme !== undefined && handsOverKey(scheme);
  if (inputs.webhookLearnKey !== true) {
    // A verifier in code may need no key.
    if (scheme === undefined || keyField !== undefined || !(isHandedOver || isSpec)) return;
    const others = isHandedOver
      ? `, or "webhookLearnKey": true to keep the first key that ${scheme.name} hands over`
      : '';
    const refused = isHandedOver ? 'delivery or handshake' : 'delivery';
    reports.warning('webhookHmacKey', `is missing: no ${refused} can be verified. Set it${others}`);
    return;
  }
  // An unknown scheme has its own warning, and no gate that could use a key.
  if (scheme === undefined) return;
  if (keyField !== undefined) {
    const why = inputs[keyField] === '' ? 'is set but empty, so there is no key' : 'is also set and takes precedence';
    reports.warning('webhookLearnKey', `is ignored: ${keyField} ${why}`);
    return;
  }
  if (settings.sealsLearnedKeys === true) return;
  const message = `keeps the key that ${scheme.name} hands over in plain text: SLUICE_STORE_KEY seals it`;
  reports.warning('webhookLearnKey', message);
}

/** Not a weakness: without the token, the publisher's handshake is refused. */
function checkVerifyToken({ verifyToken }: WebhookTrigger, scheme: Scheme | undefined, reports: TriggerReports): void {
  const handshake = scheme?.handshakes?.find(({ needsVerifyToken }) => needsVerifyToken === true);
  if (handshake === undefined || verifyToken !== undefined) return;
  const message = `is missing: ${scheme?.name} sends it in its handshake ${handshake.name}, which is refused without it`;
  reports.warning('webhookVerifyToken', message);
}

/** Not a weakness: the gate refuses signatures that it may not verify. */
function checkSha1(
  inputs: WebhookInputs,
  spec: SignatureSpec,
  { settings, reports: { warning } }: { settings: SignatureSettings; reports: TriggerReports },
): void {
  if (!usesSha1(spec)) {
    if (inputs.webhookAllowSha1 === true && spec.algorithmField === undefined)
      warning('webhookAllowSha1', `is ignored: ${spec.name} does not use SHA-1`);
    return;
  }
  if (allowsSha1(inputs, settings)) return;
  const message = `${spec.name} signs with SHA-1, which is turned off: no delivery can be verified without "webhookAllowSha1": true, or SLUICE_ALLOW_LEGACY_SHA1=true for all triggers`;
  warning('webhookSignatureScheme', message);
}

function checkTimestampHeader(inputs: WebhookInputs, spec: SignatureSpec, { weakness, warning }: TriggerReports): void {
  const header = inputs.webhookTimestampHeader;
  if (header === undefined) return;
  if (spec.timestamp === undefined) {
    weakness('webhookTimestampHeader', `is not signed by ${spec.name}: an old delivery passes with a new time in it`);
    return;
  }
  const isSigned =
    spec.timestamp.in === 'header' && spec.headers.some(({ timestamp }) => isSameName(timestamp, header));
  if (!isSigned) warning('webhookTimestampHeader', `is ignored: ${spec.name} signs its own timestamp`);
}

/** An unsigned timestamp proves nothing, so it is not read, and a tolerance then has nothing to measure. */
function checkTimestampKey(
  { webhookTimestampValueKey: key }: WebhookInputs,
  spec: SignatureSpec,
  reports: TriggerReports,
): void {
  const { timestamp } = spec;
  if (key === undefined || timestamp?.in === 'signature') return;
  const why =
    timestamp === undefined
      ? `strategy ${strategyOf(spec)} does not sign the timestamp, so anyone could change it`
      : `${spec.name} signs its own timestamp`;
  reports.warning('webhookTimestampValueKey', `is ignored: ${why}`);
}

function checkNonceHeader(inputs: WebhookInputs, spec: SignatureSpec, { weakness, warning }: TriggerReports): void {
  const header = inputs.webhookNonceHeader;
  if (header === undefined) return;
  const isOwn = spec.headers.some(({ deliveryId }) => isSameName(deliveryId, header));
  if (isOwn && isInPlace(spec, 'deliveryId')) return;
  const isWeaker = !coversBody(spec) && spec.algorithm !== 'token';
  // The publisher offers nothing better, so a warning could not be acted on; the grade says what this leaves open.
  if (isOwn && !isWeaker) return;
  const report = isWeaker ? weakness : warning;
  report(
    'webhookNonceHeader',
    `is not signed by ${spec.name}: a captured delivery passes again with another value in it`,
  );
}

function checkPresets(inputs: WebhookInputs, now: number, { warning }: TriggerReports): void {
  for (const { field, concern } of presetConcerns(inputs, now)) warning(field, concern);
}

/** Concerns about a trigger's presets that an operator should know. */
export function presetConcerns(inputs: WebhookInputs, now: number): { field: Field; concern: string }[] {
  const { webhookIpAllowListPreset: one, webhookIpAllowListPresets: several = [] } = inputs;
  const named = [
    ...(one === undefined ? [] : [{ name: one, field: 'webhookIpAllowListPreset' as const }]),
    ...several.map((name) => ({ name, field: 'webhookIpAllowListPresets' as const })),
  ];
  return named.flatMap(({ name, field }) => {
    const concern = presetConcern(findPreset(name, field), now);
    return concern === undefined ? [] : [{ field, concern }];
  });
}

function isSameName(a: string | undefined, b: string): boolean {
  return a?.toLowerCase() === b.trim().toLowerCase();
}
