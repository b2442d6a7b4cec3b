import type { SignatureAlgorithm, SignatureEncoding, SignedPayloadStrategy } from '../../model/manifest.ts';
import { HEADER_NAME } from './custom.ts';
import { hasFixedForm } from './signed-payload.ts';
import type { SignatureSpec, SpecAlgorithm } from './spec.ts';

/** A spec of the operator's in short; everything else that it may need comes from the trigger's own fields. */
export interface NamedSignatureSpec {
  readonly name: string;
  readonly headerName: string;
  readonly algorithm: SignatureAlgorithm | Capitalize<SignatureAlgorithm>;
  readonly encoding: SignatureEncoding | Capitalize<SignatureEncoding>;
  readonly prefix?: string | undefined;
  readonly signedPayloadStrategy: SignedPayloadStrategy;
}

/** The same in canonical spelling. */
export interface ShortSpec extends NamedSignatureSpec {
  readonly algorithm: SignatureAlgorithm;
  readonly encoding: SignatureEncoding;
}

const ALGORITHMS: readonly SignatureAlgorithm[] = ['sha1', 'sha256', 'sha384', 'sha512'];
const SPEC_ALGORITHMS: readonly SpecAlgorithm[] = [...ALGORITHMS, 'ed25519'];
const ENCODINGS: readonly SignatureEncoding[] = ['hexLower', 'hexUpper', 'base64', 'base64Url'];
const STRATEGIES: readonly SignedPayloadStrategy[] = [
  'RawBody',
  'TimestampDotBody',
  'ColonDelimited',
  'UrlPlusSortedForm',
  'UrlPlusBody',
  'TimestampPlusToken',
  'Custom',
];

const SIGNS_TIMESTAMP: readonly SignedPayloadStrategy[] = ['TimestampDotBody', 'ColonDelimited', 'TimestampPlusToken'];

/** Throws a TypeError that names the spec, the field and what is accepted: a config module may be plain JavaScript. */
export function readShortSpec(spec: NamedSignatureSpec): ShortSpec {
  checkHeaderName(spec.name, 'headerName', spec.headerName);
  return {
    name: spec.name,
    headerName: spec.headerName,
    algorithm: oneOf(ALGORITHMS, spec.algorithm, `signature spec "${spec.name}": algorithm`),
    encoding: oneOf(ENCODINGS, spec.encoding, `signature spec "${spec.name}": encoding`),
    prefix: spec.prefix,
    signedPayloadStrategy: oneOf(
      STRATEGIES,
      spec.signedPayloadStrategy,
      `signature spec "${spec.name}": signedPayloadStrategy`,
    ),
  };
}

/** Throws a TypeError where a spec cannot work, so that no delivery has to find out. */
export function checkSpec(spec: SignatureSpec): void {
  const place = `signature spec "${spec.name}"`;
  for (const { algorithm } of [spec, ...(spec.alternatives ?? [])]) {
    oneOf(SPEC_ALGORITHMS, algorithm, `${place}: algorithm`);
  }
  oneOf(ENCODINGS, spec.encoding, `${place}: encoding`);
  const strategy = oneOf(STRATEGIES, spec.payload.strategy, `${place}: payload.strategy`);
  if (spec.headers.length === 0 && (spec.signatureFields ?? []).length === 0) {
    throw new TypeError(`${place} names neither a header nor a field of the body that carries the signature`);
  }
  for (const family of spec.headers) {
    for (const name of Object.values(family)) if (name !== undefined) checkHeaderName(spec.name, 'headers', name);
  }
  if (spec.multiValue?.delimiter === '' || spec.multiValue?.keyValueSeparator === '') {
    throw new TypeError(`${place}: a delimiter of multiValue is empty`);
  }
  if (strategy === 'TimestampPlusToken' && spec.payload.token === undefined) {
    throw new TypeError(`${place}: strategy TimestampPlusToken needs payload.token`);
  }
  checkDeliveryId(spec, place);
  checkTimestamp(spec, place);
  checkIsSigned(spec, place);
}

function checkDeliveryId({ headers, payload }: SignatureSpec, place: string): void {
  if (payload.startsWithDeliveryId !== true) return;
  if (payload.strategy !== 'TimestampDotBody') {
    throw new TypeError(`${place}: strategy ${payload.strategy} does not sign a delivery id (startsWithDeliveryId)`);
  }
  if (headers.some(({ deliveryId }) => deliveryId === undefined)) {
    throw new TypeError(`${place}: the delivery id, which is signed, is in a header that headers do not name`);
  }
}

function checkTimestamp({ headers, multiValue, payload, timestamp }: SignatureSpec, place: string): void {
  const isNeeded = SIGNS_TIMESTAMP.includes(payload.strategy);
  if (timestamp === undefined && isNeeded) {
    throw new TypeError(`${place}: strategy ${payload.strategy} signs a timestamp; say where it stands`);
  }
  if (!isCertain({ payload, timestamp })) {
    throw new TypeError(
      `${place}: nothing tells where the timestamp begins or ends; give payload.delimiter, or unit rfc3339, or a length`,
    );
  }
  if (timestamp?.in === 'header' && headers.some((family) => family.timestamp === undefined)) {
    throw new TypeError(`${place}: the timestamp is in a header that headers do not name`);
  }
  if (timestamp?.in === 'signature' && multiValue === undefined) {
    throw new TypeError(`${place}: the timestamp is in the signature header, which multiValue does not take apart`);
  }
}

/** A timestamp that anybody could change, and the age of a delivery with it, is none that a spec may name. */
function checkIsSigned({ payload: { strategy }, timestamp }: SignatureSpec, place: string): void {
  if (timestamp === undefined || strategy === 'Custom' || SIGNS_TIMESTAMP.includes(strategy)) return;
  if (timestamp.in !== 'body' || strategy === 'UrlPlusSortedForm') {
    throw new TypeError(`${place}: strategy ${strategy} does not sign the timestamp: anybody could change it`);
  }
  const { path, formField } = timestamp.field;
  if (path.length > 0 && formField !== undefined) {
    throw new TypeError(
      `${place}: the timestamp is a JSON member (path) or a form's field (formField), not both: the content type, which is not signed, would choose`,
    );
  }
}

/** Whether no character of the timestamp could as well be the id's, the token's or the body's. */
function isCertain({ payload, timestamp }: Pick<SignatureSpec, 'payload' | 'timestamp'>): boolean {
  switch (payload.strategy) {
    case 'TimestampPlusToken':
      return hasFixedForm(timestamp);
    case 'TimestampDotBody':
    case 'ColonDelimited':
      if (payload.startsWithDeliveryId === true && payload.delimiter === '') return timestamp?.unit === 'rfc3339';
      return payload.delimiter === undefined || /[^0-9]/.test(payload.delimiter) || hasFixedForm(timestamp);
    default:
      return true;
  }
}

function checkHeaderName(specName: string, field: string, name: unknown): void {
  if (typeof name === 'string' && HEADER_NAME.test(name)) return;
  throw new TypeError(`signature spec "${specName}": ${field}: ${JSON.stringify(name)} is no header name`);
}

/** In any case: `Sha256`, `sha256`. */
function oneOf<Name extends string>(names: readonly Name[], value: unknown, field: string): Name {
  const name = names.find((it) => it.toLowerCase() === String(value).toLowerCase());
  if (name !== undefined) return name;
  throw new TypeError(`${field} is ${JSON.stringify(value)}; accepted: ${names.join(', ')}`);
}
