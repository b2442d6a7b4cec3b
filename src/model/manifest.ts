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

/**
 * What starts a run: a trigger of the flow's manifest, the failure of a run of another flow that names this one, or a
 * `RunFlow` step of one.
 */
export const RUN_TRIGGER_TYPES = [...TRIGGER_TYPES, 'failure', 'flow'] as const;
export type RunTriggerType = (typeof RUN_TRIGGER_TYPES)[number];

/** The trigger key of the runs that a `RunFlow` step starts. */
export const RUN_FLOW_KEY = 'runFlow';

/** The form of a flow id, in any case. */
export const GUID = /^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$/;

/** Of a text where the id of a flow is expected. A longer one is no name either. */
export const notAFlowId = ({ input }: { readonly input?: unknown }): string =>
  typeof input === 'string' && input.length <= 100
    ? `is ${JSON.stringify(input)}, which is not the id of a flow`
    : 'is not the id of a flow';

/** The flow of Sluice itself whose runs tell the targets of alerts. Nobody else runs, closes or replaces it. */
export const ALERT_FLOW_ID = '5a1e9a1e-47c8-4d0e-9b5a-0c1d5ce5a1e7';

/**
 * What a message signature has to cover where a trigger does not say it: without them whoever captured a delivery could send it
 * elsewhere, or with another body.
 */
export const DEFAULT_COMPONENTS: readonly string[] = ['@method', '@path', 'content-digest'];

/** What a manifest may choose from to describe a signature. */
export const SIGNATURE_CHOICES = {
  algorithms: ['sha1', 'sha256', 'sha384', 'sha512'],
  /** Of those whose publisher signs with a private key. */
  keyPairs: ['ed25519', 'rsa-sha256', 'ecdsa-sha256'],
  encodings: ['hexLower', 'hexUpper', 'base64', 'base64Url'],
  strategies: [
    'RawBody',
    'TimestampDotBody',
    'ColonDelimited',
    'UrlPlusSortedForm',
    'UrlPlusBody',
    'TimestampPlusToken',
    'Custom',
  ],
  /** UTF-8 text as it is; hex; base64; base64 behind an optional `whsec_` or `v1,whsec_`. */
  keyEncodings: ['utf8', 'hex', 'base64', 'whsec'],
  /** `detect` tells seconds from milliseconds by their size; a time of RFC 3339 may have any offset. */
  timestampUnits: ['detect', 'seconds', 'milliseconds', 'rfc3339'],
} as const;
export type SignatureAlgorithm = (typeof SIGNATURE_CHOICES.algorithms)[number];
export type SignatureEncoding = (typeof SIGNATURE_CHOICES.encodings)[number];
export type KeyEncoding = (typeof SIGNATURE_CHOICES.keyEncodings)[number];
export type SignedPayloadStrategy = (typeof SIGNATURE_CHOICES.strategies)[number];

/** The part of a manifest that runs follow, and so all of it that the store reads. */
export interface RunnableManifest {
  readonly steps: Graph;
  /** A run that takes longer is ended. */
  readonly timeoutSeconds?: number | undefined;
  /** Steps of all runs of this flow that run at once. */
  readonly concurrency?: number | undefined;
  /** Id of the flow that a failed run starts. */
  readonly onFailure?: string | undefined;
  /** Runs take the inputs of their steps from their own revision, not from the newest. */
  readonly pinInputs?: boolean | undefined;
  /** A CEL expression: runs for which it gives the same value run one at a time, in the order of their arrival. */
  readonly serialize?: string | undefined;
  readonly serializeOnFailure?: OnOrderFailure | undefined;
}

/** What the failure of a run means for those of its key: the next one starts, or none until somebody says so. */
export const ON_ORDER_FAILURE = ['continue', 'stop'] as const;
type OnOrderFailure = (typeof ON_ORDER_FAILURE)[number];

/** Steps by key. */
export type Graph = Readonly<Record<string, StepDefinition>>;

export interface PlacedStep {
  readonly step: StepDefinition;
  /** Such as `['steps', 'each', 'steps', 'call']`. */
  readonly at: readonly string[];
}

/** All steps of a graph in the order of the manifest, those of loops behind their loop. */
export function everyStep(graph: Graph, path: readonly string[] = ['steps']): PlacedStep[] {
  return Object.entries(graph).flatMap(([key, step]) => {
    const at = [...path, key];
    return [{ step, at }, ...everyStep(step.steps ?? {}, [...at, 'steps'])];
  });
}

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

/** The type of the steps that run another flow. */
export const RUN_FLOW = 'RunFlow';

/** Inputs of theirs that a run takes from its own revision: which flows it runs is settled when it starts. */
export const PINNED_INPUTS = ['flow', 'wait'] as const;

/** So many flows may run each other in a chain, the first one counted. */
export const MAX_FLOW_DEPTH = 8;

/** Ids of the flows that the steps of a graph run, those of loops included; each once. Ids that are none are left out. */
export function subFlowsOf(graph: Graph): string[] {
  return [...new Set(everyStep(graph).flatMap(({ step }) => flowsRunBy(step)))];
}

/** Flows that runs of a manifest start, by their steps or when they fail. */
export function flowsStartedBy({ steps, onFailure }: Pick<RunnableManifest, 'steps' | 'onFailure'>): string[] {
  return [...subFlowsOf(steps), ...(onFailure === undefined ? [] : [onFailure])];
}

/** The id of the flow that a step itself runs; none where it is no id, or the step runs no flow. */
export const flowsRunBy = ({ type, inputs }: StepDefinition): string[] => (type === RUN_FLOW ? idIn(inputs) : []);

function idIn({ flow }: JsonObject): string[] {
  return typeof flow === 'string' && GUID.test(flow) ? [flow.toLowerCase()] : [];
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

/** Where a manifest came from: the folder of manifests, or a request. */
export const MANIFEST_SOURCES = ['folder', 'api'] as const;
export type ManifestSource = (typeof MANIFEST_SOURCES)[number];

/** A manifest as stored: `env:` and `file:` references kept, literal secrets masked. */
export type ManifestSnapshot = Json;
