import { createHash, createPrivateKey, createPublicKey } from 'node:crypto';
import type { Command } from 'commander';
import { printJson, reporting } from '../../commands/context.ts';
import type { CommandPart } from '../../commands/part.ts';
import { decodeForm } from '../../model/form.ts';
import { coversBody } from '../../webhooks/schemes/layout.ts';
import { BUILT_IN_SCHEMES } from '../../webhooks/schemes/publishers/index.ts';
import { randomKey, type SignedDelivery, signDelivery } from '../../webhooks/schemes/sign.ts';
import { jsonSample, type PublisherSpec, type SignatureSpec } from '../../webhooks/schemes/spec.ts';
import { findSchemes, printSchemes, type SchemesOptions } from '../schemes/command.ts';

/** A request as a scheme's publisher would send it, or never would, and whether it must be accepted. */
interface KnownRequest {
  readonly scheme: string;
  readonly name: string;
  readonly method: 'POST';
  /** The called URL, which some schemes sign. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly bodyUtf8: string;
  /** The key as configured in a trigger: of a key pair, the public one. */
  readonly key: string;
  /** Seconds since 1970, and the largest accepted difference of a signed time. */
  readonly now: number;
  readonly toleranceSeconds: number;
  readonly valid: boolean;
}

const NOW = 1_700_000_000;
const TOLERANCE = 300;
const URL_CALLED = 'https://hooks.example.com/flows/api/webhook/in';

interface VectorsOptions extends SchemesOptions {
  readonly vectors?: true;
}

/** Adds `--vectors` to `schemes`. */
function addVectors(command: Command): void {
  command.option('--vectors', 'print known requests of each, signed with keys of Sluice’s own, as JSON').action(
    reporting(async (name: string | undefined, { vectors, ...options }: VectorsOptions) => {
      if (!vectors) return printSchemes(name, options);
      const wanted = new Set((await findSchemes(name)).map((scheme) => scheme.name));
      printJson(BUILT_IN_SCHEMES.filter((spec) => wanted.has(spec.name)).flatMap(vectorsOf));
    }),
  );
}

/** Known requests of a scheme; none if only the publisher has the key, or if the key form decides. */
export function vectorsOf(spec: PublisherSpec): KnownRequest[] {
  if (spec.certificate !== undefined) return [];
  const [key, other] = [keyOf(spec, 'one'), keyOf(spec, 'another')];
  const signed = sign(spec, key.signs, NOW);
  const known = (name: string, valid: boolean, { headers, body, url }: SignedDelivery): KnownRequest => ({
    scheme: spec.name,
    name,
    method: 'POST',
    url,
    headers: Object.fromEntries(Object.entries(headers).map(([header, value]) => [header.toLowerCase(), value])),
    bodyUtf8: body.toString(),
    key: key.verifies,
    now: NOW,
    toleranceSeconds: TOLERANCE,
    valid,
  });
  const changed = Buffer.from(signed.body.toString().replace(/[a-z](?=[^a-z]*$)/, 'Z'));
  const signature = spec.headers[0]?.signature;
  return [
    known('signed', true, signed),
    known('another-key', false, sign(spec, other.signs, NOW)),
    ...(coversBody(spec) && isForm(signed) === false
      ? [known('another-body', false, { ...signed, body: changed })]
      : []),
    ...(spec.timestamp === undefined ? [] : [known('too-old', false, sign(spec, key.signs, NOW - TOLERANCE - 1))]),
    ...(signature === undefined
      ? []
      : [known('no-signature', false, { ...signed, headers: without(signed.headers, signature) })]),
  ];
}

function isForm({ headers, body }: SignedDelivery): boolean {
  return (headers['content-type'] ?? '').includes('urlencoded') && decodeForm(body) !== undefined;
}

function without(headers: Readonly<Record<string, string>>, name: string): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([header]) => header !== name));
}

function sign(spec: SignatureSpec, key: string, seconds: number): SignedDelivery {
  const sample = spec.sample ?? jsonSample({ message: 'hello' });
  const signed = signDelivery({
    spec,
    key,
    body: Buffer.from(sample.body),
    url: URL_CALLED,
    timestampMs: seconds * 1000,
    deliveryId: 'msg_2b3c4d5e6f',
    contentType: sample.contentType,
    headers: sample.headers,
  });
  return { ...signed, headers: { ...sample.headers, ...signed.headers } };
}

/** The same at each call, if the algorithm allows it. */
function keyOf(spec: SignatureSpec, which: string): { readonly signs: string; readonly verifies: string } {
  const bytes = createHash('sha256').update(`${which} key of ${spec.name}`).digest();
  if (spec.algorithm === 'ed25519') {
    const der = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), bytes]);
    const privateKey = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
    const pem = (key: ReturnType<typeof createPublicKey>, type: 'pkcs8' | 'spki') =>
      key.export({ type, format: 'pem' }).toString();
    return { signs: pem(privateKey, 'pkcs8'), verifies: pem(createPublicKey(privateKey), 'spki') };
  }
  if (spec.algorithm === 'ecdsaP256' || spec.algorithm === 'rsaSha256' || spec.algorithm === 'rsaSha1') {
    const signs = randomKey(spec);
    return { signs, verifies: createPublicKey(signs).export({ type: 'spki', format: 'pem' }).toString() };
  }
  const text = {
    base64: bytes.toString('base64'),
    whsec: `whsec_${bytes.toString('base64')}`,
    hex: bytes.toString('hex'),
    utf8: `${spec.isUserAndPassword ? 'hooks:' : ''}${which} key of ${spec.name}: ${bytes.toString('hex').slice(0, 16)}`,
  }[spec.keyEncoding ?? 'utf8'];
  return { signs: text, verifies: text };
}

export const vectorsCommand: CommandPart = { name: 'vectors', additions: { schemes: addVectors } };
