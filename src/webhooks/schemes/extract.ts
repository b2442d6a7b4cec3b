import type { Delivery } from '../../model/delivery.ts';
import type { SignedTimestamp } from '../gate.ts';
import { type BodyReader, bodyReader, headerOf } from './body-fields.ts';
import type { BodyField, HeaderFamily, MultiValue, SignatureSpec, TimestampSource } from './spec.ts';
import { readTimestamp } from './timestamp.ts';

/** What a delivery brings for its verification. None of it is to be believed before a signature matched. */
export interface Extraction {
  readonly signature: FoundSignature;
  readonly timestamp: SignedTimestamp | undefined;
  readonly deliveryId: string | undefined;
  readonly token: string | undefined;
  /** Timestamp and id of the family in use, by every name that some family has for them; absent with one family. */
  readonly familyHeaders: ReadonlyMap<string, string> | undefined;
}

export type FoundSignature =
  | { readonly kind: 'found'; readonly texts: readonly CandidateText[] }
  | { readonly kind: 'missing' | 'malformed'; readonly detail: string };

/** A text that may be a signature, not decoded yet. */
export interface CandidateText {
  readonly text: string;
  readonly isEd25519: boolean;
}

interface Segment {
  readonly key: string;
  readonly value: string;
}

/** Where a timestamp may stand. */
interface Places {
  readonly delivery: Delivery;
  readonly family: HeaderFamily | undefined;
  readonly segments: readonly Segment[] | undefined;
  readonly readField: BodyReader;
}

// A rotation sends two or three signatures. The bound keeps one request from buying thousands of verifications.
const MAX_SEGMENTS = 32;

export function extract(spec: SignatureSpec, delivery: Delivery): Extraction {
  const readField = bodyReader(delivery.headers, delivery.body);
  const family = familyOf(spec, delivery);
  const line = family === undefined ? undefined : headerOf(delivery.headers, family.signature);
  const segments = segmentsOf(spec, line);
  const token = spec.payload.token;
  return {
    signature:
      family === undefined ? signatureInBody(spec, readField) : signatureInHeader(spec, family, { line, segments }),
    timestamp: timestampOf(spec.timestamp, { delivery, family, segments, readField }),
    deliveryId: family?.deliveryId === undefined ? undefined : headerOf(delivery.headers, family.deliveryId),
    token: token === undefined ? undefined : wellSized(readField(token), token),
    familyHeaders: family === undefined ? undefined : headersByAnyName(spec, family, delivery),
  };
}

function familyOf(spec: SignatureSpec, delivery: Delivery): HeaderFamily | undefined {
  return spec.headers.find(({ signature }) => headerOf(delivery.headers, signature) !== undefined) ?? spec.headers[0];
}

function headersByAnyName(
  { headers: families }: SignatureSpec,
  family: HeaderFamily,
  { headers }: Delivery,
): ReadonlyMap<string, string> | undefined {
  if (families.length < 2) return undefined;
  const values = new Map<string, string>();
  for (const role of ['timestamp', 'deliveryId'] as const) {
    const ownName = family[role];
    const value = ownName === undefined ? undefined : headerOf(headers, ownName);
    if (value === undefined) continue;
    const names = families.map((each) => each[role]).filter((name) => name !== undefined);
    for (const name of names) values.set(name.toLowerCase(), value);
  }
  return values;
}

/** The line's segments; undefined where it is absent, has not the form, or is no list. */
function segmentsOf(spec: SignatureSpec, line: string | undefined): readonly Segment[] | undefined {
  const value = line === undefined ? undefined : withoutLinePrefix(spec, line);
  if (spec.multiValue === undefined || value === undefined) return undefined;
  const { delimiter, keyValueSeparator } = spec.multiValue;
  const parts = value.split(delimiter, MAX_SEGMENTS + 1);
  if (parts.length > MAX_SEGMENTS) return undefined;
  return parts.flatMap((part) => {
    const separator = part.indexOf(keyValueSeparator);
    if (separator === -1) return [];
    return [{ key: part.slice(0, separator), value: part.slice(separator + keyValueSeparator.length) }];
  });
}

function withoutLinePrefix(spec: SignatureSpec, line: string): string | undefined {
  const prefix = spec.headerValuePrefix ?? '';
  if (line.slice(0, prefix.length).toLowerCase() !== prefix.toLowerCase()) return undefined;
  return line.slice(prefix.length);
}

function signatureInHeader(
  spec: SignatureSpec,
  family: HeaderFamily,
  { line, segments }: { line: string | undefined; segments: readonly Segment[] | undefined },
): FoundSignature {
  if (line === undefined) return { kind: 'missing', detail: `header ${family.signature} is absent` };
  const value = withoutLinePrefix(spec, line);
  if (value === undefined) {
    return { kind: 'malformed', detail: `header ${family.signature} does not start with "${spec.headerValuePrefix}"` };
  }
  if (spec.multiValue === undefined) return { kind: 'found', texts: [{ text: value, isEd25519: false }] };
  if (segments === undefined) return { kind: 'malformed', detail: `header ${family.signature} has too many segments` };
  const texts = candidateTexts(spec, spec.multiValue, segments);
  if (texts.length > 0) return { kind: 'found', texts };
  const keys = spec.multiValue.valueKeys.map((key) => `"${key}"`).join(' or ');
  return { kind: 'malformed', detail: `header ${family.signature} has no segment ${keys}` };
}

function candidateTexts(spec: SignatureSpec, multiValue: MultiValue, segments: readonly Segment[]): CandidateText[] {
  const asymmetricKey = spec.ed25519?.valueKey;
  const texts = segments
    .filter(({ key }) => multiValue.valueKeys.includes(key) || key === asymmetricKey)
    .map(({ key, value }) => ({ text: value, isEd25519: key === asymmetricKey }));
  return multiValue.acceptsMultiple ? texts : texts.slice(0, 1);
}

function signatureInBody(spec: SignatureSpec, readField: BodyReader): FoundSignature {
  const found = (spec.signatureFields ?? []).map(readField).filter((text) => text !== undefined);
  if (found.length === 0) return { kind: 'missing', detail: 'the body holds no signature' };
  return { kind: 'found', texts: found.map((text) => ({ text, isEd25519: false })) };
}

function timestampOf(source: TimestampSource | undefined, places: Places): SignedTimestamp | undefined {
  if (source === undefined) return undefined;
  const text = timestampTextOf(source, places);
  return text === undefined ? undefined : readTimestamp(text, source);
}

function timestampTextOf(source: TimestampSource, places: Places): string | undefined {
  const { delivery, family, segments, readField } = places;
  switch (source.in) {
    case 'header':
      return family?.timestamp === undefined ? undefined : headerOf(delivery.headers, family.timestamp);
    case 'signature':
      return segments?.find(({ key }) => key === source.valueKey)?.value;
    case 'body':
      return readField(source.field);
  }
}

function wellSized(text: string | undefined, { length }: BodyField): string | undefined {
  return length === undefined || text?.length === length ? text : undefined;
}
