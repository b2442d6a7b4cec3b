import type { Json, JsonObject } from './json.ts';

/** How a step may have ended. */
export const END_STATUSES = ['Succeeded', 'Failed', 'Skipped'] as const;

export const STEP_STATUSES = ['Pending', 'Running', ...END_STATUSES] as const;
export type StepStatus = (typeof STEP_STATUSES)[number];

/** All but the first are ends. */
export const RUN_STATUSES = ['Running', ...END_STATUSES, 'Cancelled', 'TimedOut'] as const;
export type RunStatus = (typeof RUN_STATUSES)[number];

/** From lenient to strict. */
export const ENFORCEMENT_MODES = ['Off', 'Audit', 'Enforce'] as const;
export type EnforcementMode = (typeof ENFORCEMENT_MODES)[number];

export const TRIGGER_TYPES = ['manual', 'cron', 'webhook'] as const;
export type TriggerType = (typeof TRIGGER_TYPES)[number];

/** The form of a flow id, in any case. */
export const GUID = /^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$/;

/** One flow as its author wrote it, in canonical spelling. Immutable once loaded. */
export interface Manifest {
  /** Lower-case GUID: the join key of all stored data and routes. */
  readonly id: string;
  readonly name: string;
  /** A label for people; decides nothing. */
  readonly version: string;
  /** In manifest order: a delivery to the flow's GUID goes to the first webhook trigger. */
  readonly triggers: Readonly<Record<string, Trigger>>;
  readonly steps: Graph;
  /** A run that takes longer is ended. */
  readonly timeoutSeconds?: number | undefined;
  /** Steps of all runs of this flow that run at once. */
  readonly concurrency?: number | undefined;
}

export type Trigger = ManualTrigger | CronTrigger | WebhookTriggerDefinition;

interface ManualTrigger {
  readonly type: 'manual';
  readonly inputs: JsonObject;
}

export interface CronTrigger {
  readonly type: 'cron';
  readonly inputs: CronInputs;
}

export interface CronInputs {
  /** Five or six fields, as croner reads them. */
  readonly cronExpression: string;
  /** IANA time zone; UTC where none is given. */
  readonly timeZone?: string | undefined;
  /** What a tick that was missed while the service was down does: fire once, or not at all. */
  readonly onMissed?: 'fireOnce' | 'skip' | undefined;
}

interface WebhookTriggerDefinition {
  readonly type: 'webhook';
  readonly inputs: WebhookInputs;
}

export const SIGNATURE_ALGORITHMS = ['sha1', 'sha256', 'sha384', 'sha512'] as const;
export type SignatureAlgorithm = (typeof SIGNATURE_ALGORITHMS)[number];

export const SIGNATURE_ENCODINGS = ['hexLower', 'hexUpper', 'base64', 'base64Url'] as const;
export type SignatureEncoding = (typeof SIGNATURE_ENCODINGS)[number];

export const SIGNED_PAYLOAD_STRATEGIES = [
  'RawBody',
  'TimestampDotBody',
  'ColonDelimited',
  'UrlPlusSortedForm',
  'UrlPlusBody',
  'TimestampPlusToken',
  'Custom',
] as const;
export type SignedPayloadStrategy = (typeof SIGNED_PAYLOAD_STRATEGIES)[number];

/** The `webhook*` fields of a webhook trigger. */
export interface WebhookInputs {
  readonly webhookSlug?: string | undefined;
  readonly webhookHmacKey?: string | undefined;
  readonly webhookHmacKeyPrevious?: string | undefined;
  readonly webhookSecret?: string | undefined;
  readonly webhookSecretPrevious?: string | undefined;
  /** A publisher that hands its key over in a handshake decides it, while no key is configured. */
  readonly webhookLearnKey?: boolean | undefined;
  readonly webhookSignatureScheme?: string | undefined;
  /** Allows a scheme that signs with SHA-1, for this trigger alone. */
  readonly webhookAllowSha1?: boolean | undefined;
  readonly webhookVerifyToken?: string | undefined;

  readonly webhookSignatureHeader?: string | undefined;
  readonly webhookSignatureAlgorithm?: SignatureAlgorithm | undefined;
  readonly webhookSignatureEncoding?: SignatureEncoding | undefined;
  readonly webhookSignaturePrefix?: string | undefined;
  readonly webhookSignatureMultiValueDelimiter?: string | undefined;
  readonly webhookSignatureKeyValueSeparator?: string | undefined;
  readonly webhookSignatureValueKey?: string | undefined;
  readonly webhookHeaderValuePrefix?: string | undefined;
  readonly webhookAcceptMultipleSignatures?: boolean | undefined;
  readonly webhookAcceptedVersions?: readonly string[] | undefined;
  readonly webhookSignedPayloadStrategy?: SignedPayloadStrategy | undefined;
  readonly webhookSignedPayloadDelimiter?: string | undefined;
  readonly webhookSignedPayloadVersion?: string | undefined;
  readonly webhookCustomStrategyName?: string | undefined;

  readonly webhookTimestampHeader?: string | undefined;
  readonly webhookTimestampValueKey?: string | undefined;
  readonly webhookRequireTimestamp?: boolean | undefined;

  readonly webhookReplayToleranceSeconds?: number | undefined;
  readonly webhookNonceHeader?: string | undefined;
  readonly webhookRateLimitPermitsPerSecond?: number | undefined;
  readonly webhookRateLimitBurstSize?: number | undefined;
  readonly webhookRateLimitPerIp?: boolean | undefined;
  readonly webhookIpAllowList?: readonly string[] | undefined;
  readonly webhookIpDenyList?: readonly string[] | undefined;
  readonly webhookIpAllowListPreset?: string | undefined;
  readonly webhookIpAllowListPresets?: readonly string[] | undefined;

  readonly webhookEnforcementMode?: EnforcementMode | undefined;
  readonly webhookPublicUrl?: string | undefined;
  readonly webhookDuplicateResponse?: 'conflict' | 'acknowledge' | undefined;
  /** While the flow is disabled or drained, deliveries are taken and start their runs later. */
  readonly webhookHoldDeliveries?: boolean | undefined;
  readonly webhookResponse?: { readonly contentType: string; readonly body: string } | undefined;
}

/** Steps by key. */
export type Graph = Readonly<Record<string, StepDefinition>>;

export interface StepDefinition {
  /** Names a handler. */
  readonly type: string;
  readonly inputs: JsonObject;
  /** Upstream step key to what it must have ended in. All edges must be satisfied. */
  readonly runAfter: Readonly<Record<string, Edge>>;
  readonly retry?: RetryPolicy | undefined;
  readonly timeoutSeconds?: number | undefined;
  /** Steps of this type, in all runs of the flow, that run at once; where several steps say it, the lowest counts. */
  readonly concurrency?: number | undefined;
  /** Of a loop: an array, or an expression that yields one. */
  readonly forEach?: Json | undefined;
  /** Of a loop: iterations that run at once. */
  readonly concurrencyLimit?: number | undefined;
  /** Of a loop: the children, a graph of their own that is run for each item. */
  readonly steps?: Graph | undefined;
}

export interface Edge {
  readonly statuses: readonly StepStatus[];
  /** A CEL expression; `false` skips the step. */
  readonly when?: string | undefined;
}

export interface RetryPolicy {
  /** All tries counted, the first one too. */
  readonly maxAttempts: number;
  readonly backoffSeconds: number;
  readonly factor: number;
  readonly maxBackoffSeconds: number;
  readonly jitter: boolean;
}

/** A webhook trigger of a loaded flow, its secrets resolved. Never serialised. */
export interface WebhookTrigger {
  readonly flowId: string;
  readonly flowName: string;
  readonly revision: number;
  readonly triggerKey: string;
  readonly inputs: WebhookInputs;
  /** Resolved keys; an empty or missing key is undefined. */
  readonly keys: { readonly current: string | undefined; readonly previous: string | undefined };
  /** Resolved; an empty or missing one is undefined. */
  readonly verifyToken?: string | undefined;
  /** A legacy key field and its present name are both set; the present one won. */
  readonly hasConflictingKeys: boolean;
}

/** Where a manifest came from: the folder of manifests, or a request. */
export const MANIFEST_SOURCES = ['folder', 'api'] as const;
export type ManifestSource = (typeof MANIFEST_SOURCES)[number];

/** A manifest as stored: `env:` and `file:` references kept, literal secrets masked. */
export type ManifestSnapshot = Json;
