import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import type { WebhookInputs, WebhookTrigger } from '../../../src/manifest/webhook-inputs.ts';
import type { Delivery } from '../../../src/model/delivery.ts';
import type { Evidence, Verdict } from '../../../src/webhooks/gate.ts';
import { type SignatureSettings, signatureGate } from '../../../src/webhooks/gates/signature.ts';
import { createCertificates } from '../../../src/webhooks/schemes/certificates.ts';
import { BUILT_IN_SCHEMES } from '../../../src/webhooks/schemes/publishers/index.ts';
import { createSchemeRegistry, type SchemeOptions } from '../../../src/webhooks/schemes/resolve.ts';
import type { SignedDelivery } from '../../../src/webhooks/schemes/sign.ts';
import type { SignatureSpec } from '../../../src/webhooks/schemes/spec.ts';
import { certificateAt } from '../../publishers/certificates.ts';

export const NOW = 1_700_000_000_000;

export function deliveryOf(parts: Partial<Omit<Delivery, 'body'>> & { body?: Buffer | string } = {}): Delivery {
  const path = parts.path ?? '/flows/api/webhook/test';
  return {
    id: '0190a000-0000-7000-8000-000000000000',
    receivedAt: NOW,
    method: 'POST',
    path,
    requestUrl: `http://127.0.0.1:3000${path}`,
    clientIp: '127.0.0.1',
    ...parts,
    headers: lowerCase(parts.headers ?? {}),
    body: Buffer.from(parts.body ?? ''),
  };
}

/** A signed delivery as it arrives. */
export function received({ headers, body, url }: SignedDelivery): Delivery {
  const { pathname, search } = new URL(url);
  return deliveryOf({ headers, body, path: `${pathname}${search}`, requestUrl: url });
}

export function lowerCase(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

export function triggerOf(inputs: WebhookInputs, keys: { current?: string; previous?: string } = {}): WebhookTrigger {
  return {
    flowId: '11111111-1111-4111-8111-111111111111',
    flowName: 'test',
    triggerKey: 'webhook',
    inputs,
    keys: { current: keys.current, previous: keys.previous },
    hasConflictingKeys: false,
  };
}

// Made once: with new caches for each, a thousand settings take a second.
const usualCertificates = createCertificates({ fetch: certificateAt, clock: { now: () => NOW, monotonic: () => 0 } });

export function settingsOf(schemes: SchemeOptions = {}, others: Partial<SignatureSettings> = {}): SignatureSettings {
  return {
    clock: { now: () => NOW, monotonic: () => 0 },
    replayToleranceSeconds: 0,
    nonceTtlSeconds: 86_400,
    rateLimitPermitsPerSecond: undefined,
    rateLimitBurstSize: undefined,
    rateLimitPerIp: undefined,
    allowLegacySha1: true,
    publicUrl: undefined,
    schemes: createSchemeRegistry(schemes),
    certificates: usualCertificates,
    ...others,
  };
}

export interface Case {
  readonly inputs: WebhookInputs;
  readonly key?: string | undefined;
  readonly previousKey?: string | undefined;
  readonly settings?: SignatureSettings;
}

let usual: SignatureSettings | undefined;

/** The signature gate of such a trigger, for any number of deliveries. */
export function judgeOf({ inputs, key, previousKey, settings }: Case): (delivery: Delivery) => Promise<Verdict> {
  const trigger = triggerOf(inputs, {
    ...(key === undefined ? {} : { current: key }),
    ...(previousKey === undefined ? {} : { previous: previousKey }),
  });
  usual ??= settingsOf();
  const gate = signatureGate.prepare(trigger, settings ?? usual);
  if (gate === undefined) throw new Error('the trigger has no signature gate');
  return async (delivery) => gate.check(delivery, {} satisfies Evidence);
}

/** The verdict of such a trigger's signature gate. */
export async function judge(trigger: Case, delivery: Delivery): Promise<Verdict> {
  return judgeOf(trigger)(delivery);
}

export function builtIn(name: string): SignatureSpec {
  const spec = BUILT_IN_SCHEMES.find((it) => it.name === name);
  if (spec === undefined) throw new Error(`no scheme ${name}`);
  return spec;
}

/** Both halves of an Ed25519 key in hex; the private one repeats one byte. */
export function ed25519Pair(byte: number): { publicKey: string; privateKey: string } {
  const seed = Buffer.alloc(32, byte);
  const der = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed]);
  const key = createPublicKey(createPrivateKey({ key: der, format: 'der', type: 'pkcs8' }));
  const { x = '' } = key.export({ format: 'jwk' });
  return { publicKey: Buffer.from(x, 'base64url').toString('hex'), privateKey: seed.toString('hex') };
}

const pairs = new Map<string, { readonly publicKey: KeyObject; readonly privateKey: KeyObject }>();

/** Both halves of a key in base64, always the same for the same number. */
function pairOf(kind: 'ecdsaP256' | 'rsaSha256', byte: number): { publicKey: string; privateKey: string } {
  const pair =
    pairs.get(`${kind} ${byte}`) ??
    (kind === 'rsaSha256'
      ? generateKeyPairSync('rsa', { modulusLength: 2048 })
      : generateKeyPairSync('ec', { namedCurve: 'P-256' }));
  pairs.set(`${kind} ${byte}`, pair);
  return {
    publicKey: pair.publicKey.export({ type: 'spki', format: 'der' }).toString('base64'),
    privateKey: pair.privateKey.export({ type: 'pkcs8', format: 'der' }).toString('base64'),
  };
}

/** Schemes that `signDelivery` can sign for; the others sign with a certificate that only their publisher has. */
export const SIGNABLE_SCHEMES = BUILT_IN_SCHEMES.filter(({ certificate }) => certificate === undefined);

/** A body that the scheme can sign, if it cannot sign every body. */
export function bodyFor({ signs, sample }: SignatureSpec, any: string): Buffer {
  return Buffer.from(signsMembers(signs) ? (sample?.body ?? '') : any);
}

/** The content type of such a body. */
export function contentTypeFor({ signs, sample }: SignatureSpec): string {
  return (signsMembers(signs) ? sample?.contentType : undefined) ?? 'application/json';
}

/** Whether the scheme signs members that the body must already contain. */
export function signsMembers(signs: SignatureSpec['signs']): boolean {
  return signs.some((it) => typeof it !== 'string' && it.part === 'field' && it.isToken !== true);
}

/** What the trigger's key names if the publisher's certificate verifies. */
function nameFor({ name }: SignatureSpec, byte: number): string {
  return name === 'PayPal' ? `8PT597110X687430LKGECAT${byte}` : `arn:aws:sns:eu-west-1:1234567890${byte + 10}:orders`;
}

/** Made of public bytes, in the scheme's form of keys. */
export function keyOf(spec: SignatureSpec, byte: number, is: 'publicKey' | 'privateKey'): string {
  if (spec.algorithm === 'ed25519') {
    const hex = ed25519Pair(byte)[is];
    return spec.keyEncoding === 'base64' ? Buffer.from(hex, 'hex').toString('base64') : hex;
  }
  if (spec.certificate !== undefined) return nameFor(spec, byte);
  if (spec.algorithm === 'ecdsaP256' || spec.algorithm === 'rsaSha256') return pairOf(spec.algorithm, byte)[is];
  if (spec.isUserAndPassword === true) return `hooks:key ${byte} of ${spec.name}`;
  switch (spec.keyEncoding) {
    case 'base64':
      return Buffer.alloc(32, byte).toString('base64');
    case 'whsec':
      return `whsec_${Buffer.alloc(24, byte).toString('base64')}`;
    case 'hex':
      return Buffer.alloc(32, byte).toString('hex');
    default:
      return `key ${byte} of ${spec.name}`;
  }
}

const keysOf = (byte: number, is: 'publicKey' | 'privateKey'): Readonly<Record<string, string>> =>
  Object.fromEntries(BUILT_IN_SCHEMES.map((spec) => [spec.name, keyOf(spec, byte, is)]));

/** A trigger's key for each scheme. */
export const KEYS = keysOf(7, 'publicKey');
export const OTHER_KEYS = keysOf(8, 'publicKey');

/** The keys that sign for the same entries of `KEYS`. */
export const SIGNING_KEYS = keysOf(7, 'privateKey');
export const OTHER_SIGNING_KEYS = keysOf(8, 'privateKey');

/** A clock that the test moves, and a publisher that counts its requests. */
export function publisher(answer: (url: string) => string | Promise<string> = certificateAt) {
  let elapsedMs = 0;
  const asked: string[] = [];
  const certificates = createCertificates({
    fetch: async (url) => {
      asked.push(url);
      return answer(url);
    },
    clock: { now: () => NOW + elapsedMs, monotonic: () => elapsedMs },
  });
  return { certificates, asked, pass: (ms: number) => (elapsedMs += ms) };
}
