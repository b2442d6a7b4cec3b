import { HEADER_NAME } from '../../model/delivery.ts';
import { GateConfigurationError, type WebhookInputs } from '../gate.ts';
import { hasPart } from './layout.ts';
import {
  type BodyField,
  type BuiltPart,
  type HeaderFamily,
  type MultiValue,
  type Part,
  type PayloadBuilder,
  part,
  type SignatureSpec,
  type TimestampSource,
} from './spec.ts';

/** Byte builders that the operator registered, by exact name. */
export type PayloadBuilders = ReadonlyMap<string, PayloadBuilder>;

// No field of a trigger names the place of a token: it is where Mailgun has it, whose strategy TimestampPlusToken is.
const TOKEN: BodyField = { path: ['signature', 'token'], formField: 'token' };
const TIMESTAMP_BESIDE_TOKEN: BodyField = { path: ['signature', 'timestamp'], formField: 'timestamp' };

// Seconds until the year 2286. With another number of digits one of them could be the token's.
const LENGTH_BESIDE_TOKEN = 10;

/** The spec that a trigger's own fields describe. Fields that make no sense together are refused, never ignored. */
export function customSpec(inputs: WebhookInputs, builders: PayloadBuilders): SignatureSpec {
  const headers = [headersOf(inputs)];
  const signs = partsOf(inputs, builders);
  const multiValue = multiValueOf(inputs, signs);
  return {
    name: 'Custom',
    headers,
    algorithm: inputs.webhookSignatureAlgorithm ?? 'sha256',
    encoding: inputs.webhookSignatureEncoding ?? 'hexLower',
    prefix: inputs.webhookSignaturePrefix,
    headerValuePrefix: inputs.webhookHeaderValuePrefix,
    multiValue,
    signs,
    timestamp: timestampOf(inputs, signs, multiValue),
    source: 'the manifest',
  };
}

function headersOf({ webhookSignatureHeader = '', webhookTimestampHeader }: WebhookInputs): HeaderFamily {
  if (webhookSignatureHeader === '') {
    const message = 'is required with scheme Custom: the name of the header that carries the signature';
    throw new GateConfigurationError('webhookSignatureHeader', message);
  }
  return {
    signature: headerName('webhookSignatureHeader', webhookSignatureHeader),
    timestamp:
      webhookTimestampHeader === undefined ? undefined : headerName('webhookTimestampHeader', webhookTimestampHeader),
  };
}

function headerName(field: keyof WebhookInputs, name: string): string {
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
    valueKeys: valueKeysOf(inputs),
    acceptsMultiple: inputs.webhookAcceptMultipleSignatures ?? false,
  };
}

/** Fields that only mean something inside a header of several segments. */
function withoutSegments(inputs: WebhookInputs, signs: readonly Part[]): undefined {
  const fields = [
    'webhookSignatureKeyValueSeparator',
    'webhookSignatureValueKey',
    'webhookAcceptedVersions',
    // Where no timestamp is signed its key is not read at all, which is warned of.
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

/** The accepted segment keys, the one that the signer sends first. */
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
  multiValue: MultiValue | undefined,
): TimestampSource | undefined {
  const valueKey = inputs.webhookTimestampValueKey;
  if (!mayHaveTimestamp(signs)) return undefined;
  if (valueKey !== undefined && inputs.webhookTimestampHeader !== undefined) {
    throw new GateConfigurationError(
      'webhookTimestampValueKey',
      'and webhookTimestampHeader name two places; only one can be used',
    );
  }
  const isBesideToken = hasPart(signs, 'field');
  const form = { unit: 'detect', length: isBesideToken ? LENGTH_BESIDE_TOKEN : undefined } as const;
  if (valueKey !== undefined && multiValue !== undefined) return { in: 'signature', valueKey, ...form };
  if (inputs.webhookTimestampHeader !== undefined) return { in: 'header', ...form };
  if (isBesideToken) return { in: 'body', field: TIMESTAMP_BESIDE_TOKEN, ...form };
  if (hasPart(signs, 'built')) return undefined;
  throw new GateConfigurationError(
    'webhookTimestampHeader',
    `or webhookTimestampValueKey is required with strategy ${inputs.webhookSignedPayloadStrategy}, which signs a timestamp`,
  );
}

function notEmpty(field: keyof WebhookInputs, value: string): void {
  if (value === '') throw new GateConfigurationError(field, 'is empty');
}
