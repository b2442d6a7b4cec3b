import { HEADER_NAME } from '../../model/delivery.ts';
import { GateConfigurationError, type WebhookInputs } from '../gate.ts';
import { hasPart, isTimeInBodyAlone, layoutOf } from './layout.ts';
import { fieldAt, NotationError, parseForm, parseSigned } from './notation.ts';
import {
  type BodyField,
  type BuiltPart,
  type HeaderFamily,
  type MultiValue,
  type Part,
  type PayloadBuilder,
  part,
  type SignatureSpec,
  type SpecAlgorithm,
  type TimestampSource,
} from './spec.ts';

/** Byte builders that the operator registered, by exact name. */
export type PayloadBuilders = ReadonlyMap<string, PayloadBuilder>;

// No trigger field names the place of a token. It is Mailgun's, because TimestampPlusToken is Mailgun's strategy.
const TOKEN: BodyField = { path: ['signature', 'token'], formField: 'token' };
const TIMESTAMP_BESIDE_TOKEN: BodyField = { path: ['signature', 'timestamp'], formField: 'timestamp' };

// Seconds until the year 2286. With another number of digits, a digit could belong to the token.
const LENGTH_BESIDE_TOKEN = 10;

/** The manifest's names for algorithms with key pairs. */
const KEY_PAIR_ALGORITHMS = { ed25519: 'ed25519', 'rsa-sha256': 'rsaSha256', 'ecdsa-sha256': 'ecdsaP256' } as const;

/** The spec that a trigger's own fields describe. Fields that make no sense together are refused, never ignored. */
export function customSpec(inputs: WebhookInputs, builders: PayloadBuilders): SignatureSpec {
  const headers = [headersOf(inputs)];
  const signs = partsOf(inputs, builders);
  const form = formOf(inputs, signs);
  return {
    name: 'Custom',
    headers,
    algorithm: algorithmOf(inputs),
    encoding: inputs.webhookSignatureEncoding ?? 'hexLower',
    prefix: form.prefix,
    headerValuePrefix: form.headerValuePrefix,
    multiValue: form.multiValue,
    signs,
    timestamp: bounded(timestampOf(inputs, signs, form), signs, inputs),
    // Otherwise a body without the timestamp would pass, however old.
    requiresTimestamp: inputs.webhookTimestampField === undefined ? undefined : true,
    keyEncoding: inputs.webhookKeyEncoding,
    source: 'the manifest',
  };
}

function algorithmOf({ webhookSignatureAlgorithm: name = 'sha256' }: WebhookInputs): SpecAlgorithm {
  return isKeyPair(name) ? KEY_PAIR_ALGORITHMS[name] : name;
}

function isKeyPair(name: string): name is keyof typeof KEY_PAIR_ALGORITHMS {
  return Object.hasOwn(KEY_PAIR_ALGORITHMS, name);
}

function headersOf(inputs: WebhookInputs): HeaderFamily {
  const [signature = '', ...further] = [inputs.webhookSignatureHeader ?? []].flat();
  if (signature === '') {
    const message = 'is required with scheme Custom: the name of the header that carries the signature';
    throw new GateConfigurationError('webhookSignatureHeader', message);
  }
  const named = (field: 'webhookTimestampHeader' | 'webhookDeliveryIdHeader') => {
    const name = inputs[field];
    return name === undefined ? undefined : customHeader(field, name);
  };
  return {
    signature: customHeader('webhookSignatureHeader', signature),
    ...(further.length > 0 && {
      furtherSignatures: further.map((name) => customHeader('webhookSignatureHeader', name)),
    }),
    timestamp: named('webhookTimestampHeader'),
    deliveryId: named('webhookDeliveryIdHeader'),
  };
}

/** Reports a wrong notation as a mistake of its field. */
function read<Value>(field: keyof WebhookInputs, parse: () => Value): Value {
  try {
    return parse();
  } catch (error) {
    if (error instanceof NotationError) throw new GateConfigurationError(field, error.message);
    throw error;
  }
}

type Form = ReturnType<typeof parseForm>;

/** Fields that together say what webhookSignatureForm says alone. */
const FORM_FIELDS = [
  'webhookSignaturePrefix',
  'webhookHeaderValuePrefix',
  'webhookSignatureMultiValueDelimiter',
  'webhookSignatureKeyValueSeparator',
  'webhookSignatureValueKey',
  'webhookAcceptedVersions',
  'webhookAcceptMultipleSignatures',
  'webhookTimestampValueKey',
] as const;

function formOf(inputs: WebhookInputs, signs: readonly Part[]): Form {
  const { webhookSignatureForm: text } = inputs;
  if (text === undefined) {
    return {
      prefix: inputs.webhookSignaturePrefix,
      headerValuePrefix: inputs.webhookHeaderValuePrefix,
      multiValue: multiValueOf(inputs, signs),
      timestampKey: inputs.webhookTimestampValueKey,
    };
  }
  refuseBeside('webhookSignatureForm', FORM_FIELDS, inputs);
  const form = read('webhookSignatureForm', () => parseForm(text));
  if (form.timestampKey !== undefined && !mayHaveTimestamp(signs)) {
    throw new GateConfigurationError(
      'webhookSignatureForm',
      'has a {timestamp} that is not signed: anyone could change it',
    );
  }
  return form;
}

function refuseBeside(
  field: keyof WebhookInputs,
  others: readonly (keyof WebhookInputs)[],
  inputs: WebhookInputs,
): void {
  const stray = others.find((other) => inputs[other] !== undefined);
  if (stray !== undefined) throw new GateConfigurationError(stray, `goes without ${field}, which says the same`);
}

export function customHeader(field: keyof WebhookInputs, name: string): string {
  if (HEADER_NAME.test(name)) return name;
  throw new GateConfigurationError(
    field,
    `"${name}" is not a header name: letters, digits and !#$%&'*+.^_\`|~- are accepted`,
  );
}

function multiValueOf(inputs: WebhookInputs, signs: readonly Part[]): MultiValue | undefined {
  const delimiter = inputs.webhookSignatureMultiValueDelimiter;
  if (delimiter === undefined) return withoutSegments(inputs, signs);
  notEmpty('webhookSignatureMultiValueDelimiter', delimiter);
  const keyValueSeparator = inputs.webhookSignatureKeyValueSeparator ?? '=';
  notEmpty('webhookSignatureKeyValueSeparator', keyValueSeparator);
  if (keyValueSeparator === delimiter) {
    throw new GateConfigurationError(
      'webhookSignatureKeyValueSeparator',
      `"${delimiter}" already separates the segments (webhookSignatureMultiValueDelimiter)`,
    );
  }
  return {
    delimiter,
    keyValueSeparator,
    valueKeys: valueKeysOf(inputs).map((key) => key.trim()),
    acceptsMultiple: inputs.webhookAcceptMultipleSignatures ?? false,
    isTrimmed: true,
  };
}

/** Refuses fields that only have a meaning for a header of several segments. */
function withoutSegments(inputs: WebhookInputs, signs: readonly Part[]): undefined {
  const fields = [
    'webhookSignatureKeyValueSeparator',
    'webhookSignatureValueKey',
    'webhookAcceptedVersions',
    // If no timestamp is signed, its key is not read at all, and the check warns of that.
    ...(mayHaveTimestamp(signs) ? (['webhookTimestampValueKey'] as const) : []),
  ] as const;
  const stray = fields.find((field) => inputs[field] !== undefined);
  const field = inputs.webhookAcceptMultipleSignatures === true ? 'webhookAcceptMultipleSignatures' : stray;
  if (field === undefined) return undefined;
  throw new GateConfigurationError(
    field,
    'needs webhookSignatureMultiValueDelimiter, which defines what separates the segments of the header',
  );
}

/** The accepted segment keys; the one that the signer sends comes first. */
function valueKeysOf(inputs: WebhookInputs): readonly string[] {
  const valueKey = inputs.webhookSignatureValueKey;
  const accepted = inputs.webhookAcceptedVersions;
  if (valueKey === undefined && accepted === undefined) {
    throw new GateConfigurationError(
      'webhookSignatureValueKey',
      'or webhookAcceptedVersions is required with webhookSignatureMultiValueDelimiter: which segment is the signature?',
    );
  }
  if (accepted?.length === 0) throw new GateConfigurationError('webhookAcceptedVersions', 'is empty: none could pass');
  if (valueKey !== undefined && accepted !== undefined && !accepted.includes(valueKey)) {
    const message = `does not list "${valueKey}" (webhookSignatureValueKey): no signature could pass`;
    throw new GateConfigurationError('webhookAcceptedVersions', message);
  }
  const keys = new Set([...(valueKey === undefined ? [] : [valueKey]), ...(accepted ?? [])]);
  if (inputs.webhookTimestampValueKey !== undefined && keys.has(inputs.webhookTimestampValueKey)) {
    throw new GateConfigurationError('webhookTimestampValueKey', 'is also the key of a signature');
  }
  return [...keys];
}

function partsOf(inputs: WebhookInputs, builders: PayloadBuilders): readonly Part[] {
  const { webhookSignedPayload: text } = inputs;
  if (text === undefined) return strategyParts(inputs, builders);
  const others = [
    'webhookSignedPayloadStrategy',
    'webhookSignedPayloadDelimiter',
    'webhookSignedPayloadVersion',
    'webhookCustomStrategyName',
  ] as const;
  refuseBeside('webhookSignedPayload', others, inputs);
  const signs = read('webhookSignedPayload', () => parseSigned(text)).map((it) => inPlace(it, inputs));
  const problem = problemOf(signs, inputs);
  if (problem !== undefined) throw new GateConfigurationError('webhookSignedPayload', problem);
  return signs;
}

/** If the header of the timestamp or the id is signed by its name, it still counts as timestamp or id. */
function inPlace(it: Part, { webhookTimestampHeader, webhookDeliveryIdHeader }: WebhookInputs): Part {
  if (typeof it === 'string' || it.part !== 'header') return it;
  if (it.name === webhookTimestampHeader?.toLowerCase()) return part.timestamp;
  return it.name === webhookDeliveryIdHeader?.toLowerCase() ? part.deliveryId : it;
}

function problemOf(signs: readonly Part[], { webhookDeliveryIdHeader }: WebhookInputs): string | undefined {
  if (signs.every((it) => typeof it === 'string')) return 'has no part of the delivery: one signature would fit all';
  if (hasPart(signs, 'sortedForm', 'keyName', 'checksum')) return 'has a part that only a built-in scheme signs';
  if (hasPart(signs, 'deliveryId') && webhookDeliveryIdHeader === undefined)
    return 'has an {id}: webhookDeliveryIdHeader must name its header';
  const parts = signs.filter((it) => typeof it !== 'string').map((it) => JSON.stringify(it));
  return new Set(parts).size < parts.length ? 'has a part twice' : undefined;
}

function strategyParts(inputs: WebhookInputs, builders: PayloadBuilders): readonly Part[] {
  const { webhookSignedPayloadStrategy: strategy = 'RawBody', webhookSignedPayloadVersion: version } = inputs;
  const isDelimited = strategy === 'TimestampDotBody' || strategy === 'ColonDelimited';
  const stray = (
    [
      ['webhookSignedPayloadDelimiter', isDelimited],
      ['webhookSignedPayloadVersion', strategy === 'ColonDelimited'],
      ['webhookCustomStrategyName', strategy === 'Custom'],
    ] as const
  ).find(([field, hasEffect]) => inputs[field] !== undefined && !hasEffect);
  if (stray !== undefined) throw new GateConfigurationError(stray[0], `has no effect with strategy ${strategy}`);
  switch (strategy) {
    case 'RawBody':
      return [part.body];
    case 'TimestampDotBody':
      return [part.timestamp, inputs.webhookSignedPayloadDelimiter ?? '.', part.body];
    case 'ColonDelimited': {
      if (version === undefined) {
        throw new GateConfigurationError(
          'webhookSignedPayloadVersion',
          'is required with strategy ColonDelimited; without a version it is TimestampDotBody with the delimiter ":"',
        );
      }
      const delimiter = inputs.webhookSignedPayloadDelimiter ?? ':';
      return [`${version}${delimiter}`, part.timestamp, delimiter, part.body];
    }
    case 'UrlPlusBody':
      return [part.url, part.body];
    case 'UrlPlusSortedForm':
      return [part.url, part.sortedForm];
    case 'TimestampPlusToken':
      return [part.timestamp, part.token(TOKEN)];
    case 'Custom':
      return [builtPart(inputs, builders)];
  }
}

function builtPart({ webhookCustomStrategyName: name }: WebhookInputs, builders: PayloadBuilders): BuiltPart {
  if (name === undefined || name === '') {
    throw new GateConfigurationError('webhookCustomStrategyName', 'is required with strategy Custom');
  }
  const build = builders.get(name);
  if (build !== undefined) return { part: 'built', name, build };
  const known = [...builders.keys()].map((each) => `"${each}"`).join(', ');
  const message = `"${name}" is not registered; ${known === '' ? 'no payload strategy is' : `registered: ${known}`}`;
  throw new GateConfigurationError('webhookCustomStrategyName', message);
}

function mayHaveTimestamp(signs: readonly Part[]): boolean {
  return hasPart(signs, 'timestamp', 'built');
}

function timestampOf(
  inputs: WebhookInputs,
  signs: readonly Part[],
  { multiValue, timestampKey }: Form,
): TimestampSource | undefined {
  const { webhookTimestampHeader: header, webhookTimestampField: path } = inputs;
  if (path !== undefined) return timestampInBody(path, signs, inputs);
  if (!mayHaveTimestamp(signs)) return undefined;
  if (timestampKey !== undefined && header !== undefined) {
    const field = inputs.webhookSignatureForm === undefined ? 'webhookTimestampValueKey' : 'webhookTimestampHeader';
    const other = inputs.webhookSignatureForm === undefined ? 'webhookTimestampHeader' : 'webhookSignatureForm';
    throw new GateConfigurationError(field, `and ${other} name two places; only one can be used`);
  }
  const isBesideToken = inputs.webhookSignedPayloadStrategy === 'TimestampPlusToken';
  const form = { unit: unitOf(inputs), length: isBesideToken ? LENGTH_BESIDE_TOKEN : undefined } as const;
  if (timestampKey !== undefined && multiValue !== undefined)
    return { in: 'signature', valueKey: timestampKey.trim(), ...form };
  if (header !== undefined) return { in: 'header', ...form };
  if (isBesideToken) return { in: 'body', field: TIMESTAMP_BESIDE_TOKEN, ...form };
  if (hasPart(signs, 'built')) return undefined;
  const what = inputs.webhookSignedPayloadStrategy ?? inputs.webhookSignedPayload;
  throw new GateConfigurationError(
    'webhookTimestampHeader',
    `or webhookTimestampValueKey is required with strategy ${what}, which signs a timestamp`,
  );
}

/** The timestamp in a member of the body; the whole body or the member itself must be signed. */
function timestampInBody(path: string, signs: readonly Part[], inputs: WebhookInputs): TimestampSource {
  const others = ['webhookTimestampHeader', 'webhookTimestampValueKey'] as const;
  refuseBeside('webhookTimestampField', others, inputs);
  const isWhole = isTimeInBodyAlone(signs);
  const source: TimestampSource = {
    in: 'body',
    field: isWhole ? { path: path.split('.') } : fieldAt(path),
    unit: unitOf(inputs),
    length: inputs.webhookSignedPayloadStrategy === 'TimestampPlusToken' ? LENGTH_BESIDE_TOKEN : undefined,
  };
  if (isWhole || hasPart(signs, 'timestamp', 'built')) return source;
  const isSigned = signs.some(
    (it) => typeof it !== 'string' && it.part === 'field' && it.field.path.join('.') === path,
  );
  if (isSigned) return source;
  throw new GateConfigurationError('webhookTimestampField', 'is not signed: anyone could change it');
}

/** Until the year 2286. Required if nothing else shows where the time ends: a digit could belong to its neighbour. */
const DIGITS = { seconds: 10, milliseconds: 13 } as const;

function bounded(
  timestamp: TimestampSource | undefined,
  signs: readonly Part[],
  { webhookTimestampUnit: unit }: WebhookInputs,
): TimestampSource | undefined {
  if (timestamp === undefined || (unit !== 'seconds' && unit !== 'milliseconds')) return timestamp;
  const isCertain = layoutOf({ signs, timestamp }).boundaries.every(({ certainty }) => certainty === 'certain');
  return isCertain ? timestamp : { ...timestamp, length: DIGITS[unit] };
}

function unitOf({ webhookTimestampUnit: unit = 'detect' }: WebhookInputs): TimestampSource['unit'] {
  return unit === 'rfc3339' ? 'rfc3339Offset' : unit;
}

function notEmpty(field: keyof WebhookInputs, value: string): void {
  if (value === '') throw new GateConfigurationError(field, 'is empty');
}
