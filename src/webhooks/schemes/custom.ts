import { HEADER_NAME } from '../../model/delivery.ts';
import type { SignedPayloadStrategy } from '../../model/manifest.ts';
import { GateConfigurationError, type WebhookInputs } from '../gate.ts';
import type {
  BodyField,
  HeaderFamily,
  MultiValue,
  PayloadBuilder,
  PayloadLayout,
  SignatureSpec,
  TimestampSource,
} from './spec.ts';

/** Byte builders that the operator registered, by exact name. */
export type PayloadBuilders = ReadonlyMap<string, PayloadBuilder>;

const TIMESTAMP_STRATEGIES: readonly SignedPayloadStrategy[] = [
  'TimestampDotBody',
  'ColonDelimited',
  'TimestampPlusToken',
  'Custom',
];
const DELIMITED_STRATEGIES: readonly SignedPayloadStrategy[] = ['TimestampDotBody', 'ColonDelimited'];

// No field of a trigger names the place of a token: it is where Mailgun has it, whose strategy TimestampPlusToken is.
const TOKEN: BodyField = { path: ['signature', 'token'], formField: 'token' };
const TIMESTAMP_BESIDE_TOKEN: BodyField = { path: ['signature', 'timestamp'], formField: 'timestamp' };

// Seconds until the year 2286. With another number of digits one of them could be the token's.
const LENGTH_BESIDE_TOKEN = 10;

/** The spec that a trigger's own fields describe. Fields that make no sense together are refused, never ignored. */
export function customSpec(inputs: WebhookInputs, builders: PayloadBuilders): SignatureSpec {
  const headers = [headersOf(inputs)];
  const multiValue = multiValueOf(inputs);
  const payload = payloadOf(inputs, builders);
  return {
    name: 'Custom',
    headers,
    algorithm: inputs.webhookSignatureAlgorithm ?? 'sha256',
    encoding: inputs.webhookSignatureEncoding ?? 'hexLower',
    prefix: inputs.webhookSignaturePrefix,
    headerValuePrefix: inputs.webhookHeaderValuePrefix,
    multiValue,
    payload,
    timestamp: timestampOf(inputs, inputs.webhookSignedPayloadStrategy ?? 'RawBody', multiValue),
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

function multiValueOf(inputs: WebhookInputs): MultiValue | undefined {
  const delimiter = inputs.webhookSignatureMultiValueDelimiter;
  if (delimiter === undefined) return withoutSegments(inputs);
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
function withoutSegments(inputs: WebhookInputs): undefined {
  const fields = [
    'webhookSignatureKeyValueSeparator',
    'webhookSignatureValueKey',
    'webhookAcceptedVersions',
    // Where no timestamp is signed its key is not read at all, which is warned of.
    ...(signsTimestamp(inputs) ? (['webhookTimestampValueKey'] as const) : []),
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

function payloadOf(inputs: WebhookInputs, builders: PayloadBuilders): PayloadLayout {
  const strategy = inputs.webhookSignedPayloadStrategy ?? 'RawBody';
  const delimiter = inputs.webhookSignedPayloadDelimiter;
  const version = inputs.webhookSignedPayloadVersion;
  if (delimiter !== undefined && !DELIMITED_STRATEGIES.includes(strategy)) {
    throw new GateConfigurationError('webhookSignedPayloadDelimiter', `has no effect with strategy ${strategy}`);
  }
  if (version !== undefined && strategy !== 'ColonDelimited') {
    throw new GateConfigurationError('webhookSignedPayloadVersion', `has no effect with strategy ${strategy}`);
  }
  if (version === undefined && strategy === 'ColonDelimited') {
    throw new GateConfigurationError(
      'webhookSignedPayloadVersion',
      'is required with strategy ColonDelimited; without a version it is TimestampDotBody with the delimiter ":"',
    );
  }
  const token = strategy === 'TimestampPlusToken' ? TOKEN : undefined;
  return { strategy, delimiter, version, token, ...builderOf(inputs, strategy, builders) };
}

function builderOf(inputs: WebhookInputs, strategy: SignedPayloadStrategy, builders: PayloadBuilders) {
  const customName = inputs.webhookCustomStrategyName;
  if (strategy !== 'Custom') {
    if (customName === undefined) return {};
    throw new GateConfigurationError('webhookCustomStrategyName', `has no effect with strategy ${strategy}`);
  }
  if (customName === undefined || customName === '') {
    throw new GateConfigurationError('webhookCustomStrategyName', 'is required with strategy Custom');
  }
  const builder = builders.get(customName);
  if (builder !== undefined) return { customName, builder };
  const known = [...builders.keys()].map((name) => `"${name}"`).join(', ');
  const message = `"${customName}" is not registered; ${known === '' ? 'no payload strategy is' : `registered: ${known}`}`;
  throw new GateConfigurationError('webhookCustomStrategyName', message);
}

function signsTimestamp({ webhookSignedPayloadStrategy = 'RawBody' }: WebhookInputs): boolean {
  return TIMESTAMP_STRATEGIES.includes(webhookSignedPayloadStrategy);
}

function timestampOf(
  inputs: WebhookInputs,
  strategy: SignedPayloadStrategy,
  multiValue: MultiValue | undefined,
): TimestampSource | undefined {
  const valueKey = inputs.webhookTimestampValueKey;
  const length = strategy === 'TimestampPlusToken' ? LENGTH_BESIDE_TOKEN : undefined;
  const form = { unit: 'detect', length } as const;
  const isSigned = signsTimestamp(inputs);
  if (isSigned && valueKey !== undefined && inputs.webhookTimestampHeader !== undefined) {
    throw new GateConfigurationError(
      'webhookTimestampValueKey',
      'and webhookTimestampHeader name two places; only one can be used',
    );
  }
  if (valueKey !== undefined && multiValue !== undefined && isSigned) {
    return { in: 'signature', valueKey, ...form };
  }
  if (!isSigned) return undefined;
  if (inputs.webhookTimestampHeader !== undefined) return { in: 'header', ...form };
  if (strategy === 'TimestampPlusToken') return { in: 'body', field: TIMESTAMP_BESIDE_TOKEN, ...form };
  if (strategy === 'Custom') return undefined;
  throw new GateConfigurationError(
    'webhookTimestampHeader',
    `or webhookTimestampValueKey is required with strategy ${strategy}, which signs a timestamp`,
  );
}

function notEmpty(field: keyof WebhookInputs, value: string): void {
  if (value === '') throw new GateConfigurationError(field, 'is empty');
}
