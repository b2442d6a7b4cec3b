import { createHash, createPublicKey, type KeyObject, sign, verify } from 'node:crypto';
import { z } from 'zod';
import { CONTENT_MARK } from '../../model/text.ts';

const FORMAT = 'sluice-evidence-v1';

/** One item that a bundle proves something about. */
export interface EvidencePart {
  /** Unique in the bundle, such as `delivery.json`. */
  readonly name: string;
  readonly mediaType: string;
  readonly content: Uint8Array;
}

/** The subject, maker and time of a bundle. */
interface EvidenceSubject {
  readonly deliveryId: string;
  readonly runId: string | null;
  /** ISO 8601. */
  readonly createdAt: string;
  /** The version of Sluice. */
  readonly version: string;
}

const partSchema = z.object({
  name: z.string(),
  mediaType: z.string(),
  encoding: z.enum(['utf8', 'base64']),
  content: z.string().meta({ [CONTENT_MARK]: true }),
});

export const evidenceSchema = z
  .object({
    format: z.literal(FORMAT),
    statement: z
      .string()
      .describe('JSON with the ids, the time, and the SHA-256 of each part; the signature covers this text.'),
    signature: z.string().nullable().describe('Base64 of the Ed25519 signature; null without SLUICE_EVIDENCE_KEY.'),
    parts: z.array(partSchema),
  })
  .meta({ id: 'Evidence' });

const statementSchema = z.object({
  format: z.literal(FORMAT),
  deliveryId: z.string(),
  runId: z.string().nullable(),
  createdAt: z.string(),
  version: z.string(),
  /** `sha256:` and the hex digest of the public key as DER SubjectPublicKeyInfo; null where the service has no key. */
  key: z.string().nullable(),
  parts: z.array(z.object({ name: z.string(), mediaType: z.string(), bytes: z.int(), sha256: z.string() })),
});

type Statement = z.output<typeof statementSchema>;

/** Makes a bundle: parts, a statement with the hash of each, and, given a private Ed25519 key, its signature. */
export function sealEvidence(
  subject: EvidenceSubject,
  parts: readonly EvidencePart[],
  key: KeyObject | undefined,
): string {
  const { deliveryId, runId, createdAt, version } = subject;
  const statement: Statement = {
    ...{ format: FORMAT, deliveryId, runId, createdAt, version },
    key: key === undefined ? null : keyName(createPublicKey(key)),
    parts: parts.map(({ name, mediaType, content }) => ({
      ...{ name, mediaType, bytes: content.byteLength },
      sha256: sha256(content),
    })),
  };
  const text = JSON.stringify(statement);
  const bundle: z.output<typeof evidenceSchema> = {
    format: FORMAT,
    statement: text,
    signature: key === undefined ? null : sign(null, Buffer.from(text), key).toString('base64'),
    parts: parts.map(({ name, mediaType, content }) => ({ name, mediaType, ...written(content) })),
  };
  return `${JSON.stringify(bundle, null, 2)}\n`;
}

/** The proven content of a bundle, or the first reason why it proves nothing. */
type EvidenceVerdict =
  | { readonly isProven: true; readonly statement: Statement; readonly parts: readonly EvidencePart[] }
  | { readonly isProven: false; readonly why: string };

/**
 * Verifies a bundle with the known public key of its maker. A key from the bundle itself would prove nothing: anyone
 * who alters a bundle can sign it again.
 */
export function verifyEvidence(text: string, publicKey: KeyObject): EvidenceVerdict {
  const bundle = parsed(text, evidenceSchema);
  if (bundle === undefined) return refuted(`it is not evidence of the format ${FORMAT}`);
  if (bundle.signature === null)
    return refuted('it is not signed: the service that made it has no SLUICE_EVIDENCE_KEY');
  const signature = fromBase64(bundle.signature);
  if (signature === undefined || !verify(null, Buffer.from(bundle.statement), publicKey, signature)) {
    return refuted(`the signature is not one of the key ${keyName(publicKey)} over the statement`);
  }
  const statement = parsed(bundle.statement, statementSchema);
  if (statement === undefined) return refuted('the statement is signed, but its format is not known here');
  const parts = bundle.parts.map(({ name, mediaType, encoding, content }) => ({
    ...{ name, mediaType },
    content: encoding === 'base64' ? fromBase64(content) : Buffer.from(content),
  }));
  const names = parts.map(({ name }) => name);
  const stated = statement.parts.map(({ name }) => name);
  if (names.join('\n') !== stated.join('\n') || new Set(names).size < names.length) {
    return refuted(`it contains the parts ${names.join(', ')}, but the statement lists ${stated.join(', ')}`);
  }
  const proven: EvidencePart[] = [];
  for (const [at, { name, mediaType, bytes, sha256: expected }] of statement.parts.entries()) {
    const part = parts[at];
    const { content } = part ?? {};
    if (
      content === undefined ||
      part?.mediaType !== mediaType ||
      content.byteLength !== bytes ||
      sha256(content) !== expected
    ) {
      return refuted(`the part ${name} was altered: its hash differs from the one in the statement`);
    }
    proven.push({ name, mediaType, content });
  }
  return { isProven: true, statement, parts: proven };
}

/** Undefined unless the text is the canonical Base64 of its bytes: another text must not pass for the same. */
function fromBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text ? bytes : undefined;
}

function refuted(why: string): EvidenceVerdict {
  return { isProven: false, why };
}

/** A public key in the form that people compare. */
export function keyName(key: KeyObject): string {
  return `sha256:${sha256(key.export({ type: 'spki', format: 'der' }))}`;
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** Text if the bytes are UTF-8 and decode without loss, so that a person can read the bundle. */
function written(content: Uint8Array): Pick<z.output<typeof partSchema>, 'encoding' | 'content'> {
  const bytes = Buffer.from(content);
  const text = bytes.toString('utf8');
  if (Buffer.from(text, 'utf8').equals(bytes)) return { encoding: 'utf8', content: text };
  return { encoding: 'base64', content: bytes.toString('base64') };
}

function parsed<Schema extends z.ZodType>(text: string, schema: Schema): z.output<Schema> | undefined {
  try {
    return schema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
