import type { WebhookInputs, WebhookTrigger } from '../manifest/webhook-inputs.ts';
import { DAY_MS } from '../model/clock.ts';
import { familiesCovered } from './networks/addresses.ts';
import { findPreset } from './networks/presets.ts';
import { readVerificationKey, type SchemeKey } from './schemes/scheme-keys.ts';
import type { SignatureSpec } from './schemes/spec.ts';
import type { StandardScheme } from './schemes/standards/standard.ts';
import { sharedSecretIn } from './schemes/standards/verifying-keys.ts';

/** A field whose value makes its gate pass deliveries that it should refuse, or refuse everything. */
interface Weakness {
  readonly field: keyof WebhookInputs;
  /** Never holds the value of a secret, or its length. */
  readonly message: string;
  /** False if the value is a mistake that lets no delivery in. */
  readonly isOpen: boolean;
}

// RFC 2104 asks for as many bytes as the digest has; below 16 a key can be found by trying, from one captured delivery.
const MIN_KEY_BYTES = 16;
/** More deliveries in a second than one process can take. */
const MAX_USEFUL_RATE = 1_000_000;

/** All weaknesses that a trigger configures. Its gates must have been prepared, so that the values are well formed. */
export function weaknessesOf(
  trigger: WebhookTrigger,
  /** The form of the scheme for the current key, and for the previous one. */
  specs: readonly [SignatureSpec, SignatureSpec] | StandardScheme | undefined,
): Weakness[] {
  return [...keyWeaknesses(trigger, specs), ...listWeaknesses(trigger.inputs), ...limitWeaknesses(trigger.inputs)];
}

function keyWeaknesses(
  { inputs, keys, verifyToken }: WebhookTrigger,
  specs: readonly [SignatureSpec, SignatureSpec] | StandardScheme | undefined,
): Weakness[] {
  const [scheme, previousScheme] = specs === undefined ? [] : 'rule' in specs ? [specs, specs] : specs;
  const current = inputs.webhookHmacKey === undefined ? 'webhookSecret' : 'webhookHmacKey';
  const previous = inputs.webhookHmacKeyPrevious === undefined ? 'webhookSecretPrevious' : 'webhookHmacKeyPrevious';
  const found = [
    secretWeakness(keys.current, current, scheme),
    ...(keys.others ?? []).map((text, at) => {
      const weakness = secretWeakness(text, current, scheme);
      return weakness && { ...weakness, message: `number ${at + 2} of the list ${weakness.message}` };
    }),
    // Without a current key, the previous key is not read, and the gate refuses everything.
    secretWeakness(keys.previous, previous, keys.current ? previousScheme : undefined),
    secretWeakness(verifyToken, 'webhookVerifyToken', undefined),
  ].filter((weakness) => weakness !== undefined);
  if (keys.previous && [keys.current, ...(keys.others ?? [])].includes(keys.previous)) {
    found.push({ field: previous, message: 'is the current key: nothing is rotated', isOpen: false });
  }
  return found;
}

/** The gravest weakness of a secret; with a scheme given, of the key as the scheme reads it. */
function secretWeakness(
  text: string | undefined,
  field: keyof WebhookInputs,
  scheme: SignatureSpec | StandardScheme | undefined,
): Weakness | undefined {
  if (!text) return undefined;
  const spec = scheme === undefined || 'rule' in scheme ? undefined : scheme;
  if (isPlaceholder(text) || (spec?.isUserAndPassword === true && isPlaceholder(passwordOf(text)))) {
    return { field, message: 'is a placeholder, which anyone can guess: replace it with a secret', isOpen: true };
  }
  const key = spec === undefined ? undefined : readVerificationKey(spec, text, field);
  const shared =
    scheme !== undefined && 'rule' in scheme
      ? sharedSecretIn(text, { field, scheme: scheme.name, encoding: scheme.rule.keyEncoding })
      : undefined;
  const secret = shared?.export() ?? secretOf(key, spec, text);
  if (secret !== undefined && secret.length < MIN_KEY_BYTES) {
    const how = key?.kind === 'token' ? 'it may be guessed' : 'anyone who captures one delivery can find it by trying';
    const message = `has fewer than ${MIN_KEY_BYTES} bytes: ${how}`;
    return { field, message, isOpen: true };
  }
  if (secret !== undefined && repeatsOneByte(secret)) {
    return { field, message: 'repeats one byte, which anyone can guess', isOpen: true };
  }
  if (text.trim() === text) return undefined;
  const message = 'begins or ends with white space, which is part of the key; this is usually a mistake';
  return { field, message, isOpen: false };
}

/** Whether a secret of any length can be guessed like one byte. */
export function repeatsOneByte(secret: Uint8Array): boolean {
  return new Set(secret).size === 1;
}

/** The part that must be guessed: of user and password, only the password. */
function secretOf(key: SchemeKey | undefined, spec: SignatureSpec | undefined, text: string): Buffer | undefined {
  if (key?.kind !== 'hmac' && key?.kind !== 'token') return undefined;
  return spec?.isUserAndPassword === true ? Buffer.from(passwordOf(text)) : key.key.export();
}

const passwordOf = (text: string) => text.slice(text.indexOf(':') + 1);

const PLACEHOLDERS: ReadonlySet<string> = new Set(
  (
    'secret mysecret yoursecret topsecret supersecret webhooksecret mywebhooksecret signingsecret clientsecret hmackey ' +
    'webhookkey signingkey secretkey key mykey yourkey token mytoken verifytoken webhooktoken password passw0rd default ' +
    'test testing testkey testsecret demo demokey example sample placeholder todo tbd none null undefined foo foobar admin'
  ).split(' '),
);
const PLACEHOLDER_FORMS = [
  /(change|replace)[\s_-]*(me|this|it|with)/i,
  /^(your|my)[\s_-].*[\s_-](here|key|secret|token)$/i,
  /^<.*>$/s,
  /^\{\{.*\}\}$/s,
  /^\$\{.*\}$/s,
  // The variable or file itself holds a reference, which is not resolved.
  /^(env|file):/i,
];

/** Whether a secret is still the placeholder that documentation shows in its place. */
export function isPlaceholder(text: string): boolean {
  const bare = text.trim().replace(/^(?:v1,)?whsec_/, '');
  return (
    PLACEHOLDERS.has(bare.toLowerCase().replace(/[\s_-]/g, '')) || PLACEHOLDER_FORMS.some((form) => form.test(bare))
  );
}

function listWeaknesses(inputs: WebhookInputs): Weakness[] {
  const { webhookIpAllowList, webhookIpDenyList, webhookIpAllowListPreset, webhookIpAllowListPresets = [] } = inputs;
  const field = 'webhookIpAllowListPresets';
  const presets = [
    ...(webhookIpAllowListPreset === undefined ? [] : [webhookIpAllowListPreset]),
    ...webhookIpAllowListPresets,
  ];
  const allowed = [...(webhookIpAllowList ?? []), ...presets.flatMap((name) => findPreset(name, field).entries)];
  const found: Weakness[] = [];
  const allows = familiesCovered(allowed).map((family) => `IPv${family}`);
  if (allows.length > 0) {
    const message = `holds every public ${allows.join(' and ')} address: it accepts all of them`;
    found.push({ field: 'webhookIpAllowList', message, isOpen: true });
  }
  const denies = familiesCovered(webhookIpDenyList ?? []).map((family) => `IPv${family}`);
  if (denies.length > 0) {
    const message = `holds every public ${denies.join(' and ')} address: it refuses all of them`;
    found.push({ field: 'webhookIpDenyList', message, isOpen: false });
  }
  return found;
}

function limitWeaknesses(inputs: WebhookInputs): Weakness[] {
  const { webhookReplayToleranceSeconds: tolerance = 0, webhookRateLimitPermitsPerSecond: rate = 0 } = inputs;
  const found: Weakness[] = [];
  if (tolerance * 1000 > DAY_MS) {
    const message = 'is more than a day: a captured delivery passes for that long once its nonce is lost';
    found.push({ field: 'webhookReplayToleranceSeconds', message, isOpen: true });
  }
  if (rate > MAX_USEFUL_RATE) {
    const message = `is more than ${MAX_USEFUL_RATE} deliveries a second: it limits nothing`;
    found.push({ field: 'webhookRateLimitPermitsPerSecond', message, isOpen: true });
  }
  return found;
}
