import type { Json, JsonObject } from './json.ts';

/** The statuses of a step that has ended. */
export const END_STATUSES = ['Succeeded', 'Failed', 'Skipped'] as const;

export const STEP_STATUSES = ['Pending', 'Running', ...END_STATUSES] as const;
export type StepStatus = (typeof STEP_STATUSES)[number];

/** All but the first are final. */
export const RUN_STATUSES = ['Running', ...END_STATUSES, 'Cancelled', 'TimedOut'] as const;
export type RunStatus = (typeof RUN_STATUSES)[number];

/** From lenient to strict. */
export const ENFORCEMENT_MODES = ['Off', 'Audit', 'Enforce'] as const;
export type EnforcementMode = (typeof ENFORCEMENT_MODES)[number];

export const TRIGGER_TYPES = ['manual', 'cron', 'webhook'] as const;
export type TriggerType = (typeof TRIGGER_TYPES)[number];

/** The cause of a run: a trigger of the flow's manifest, a failed run or a `RunFlow` step of another flow. */
export const RUN_TRIGGER_TYPES = [...TRIGGER_TYPES, 'failure', 'flow'] as const;
export type RunTriggerType = (typeof RUN_TRIGGER_TYPES)[number];

/** The trigger key of the runs that a `RunFlow` step starts. */
export const RUN_FLOW_KEY = 'runFlow';

/** The form of a flow id, in any case. */
export const GUID = /^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$/;

/** The problem of a text that should be a flow id. A text of over 100 characters is not quoted. */
export const notAFlowId = ({ input }: { readonly input?: unknown }): string =>
  typeof input === 'string' && input.length <= 100
    ? `is ${JSON.stringify(input)}, which is not the id of a flow`
    : 'is not the id of a flow';

/** Sluice's own flow whose runs send alerts. Users cannot run, close or replace it. */
export const ALERT_FLOW_ID = '5a1e9a1e-47c8-4d0e-9b5a-0c1d5ce5a1e7';

/**
 * What a message signature must cover if a trigger does not define it: otherwise anyone who captured a delivery could
 * send it to another address, or with another body.
 */
export const DEFAULT_COMPONENTS: readonly string[] = ['@method', '@path', 'content-digest'];

/** The choices of a manifest that describes a signature. */
export const SIGNATURE_CHOICES = {
  algorithms: ['sha1', 'sha256', 'sha384', 'sha512'],
  /** For publishers that sign with a private key. */
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
  /** UTF-8 text; hex; base64; base64 after an optional `whsec_` or `v1,whsec_`. */
  keyEncodings: ['utf8', 'hex', 'base64', 'whsec'],
  /** `detect` distinguishes seconds from milliseconds by size; an RFC 3339 time can have any offset. */
  timestampUnits: ['detect', 'seconds', 'milliseconds', 'rfc3339'],
} as const;
export type SignatureAlgorithm = (typeof SIGNATURE_CHOICES.algorithms)[number];
export type SignatureEncoding = (typeof SIGNATURE_CHOICES.encodings)[number];
export type KeyEncoding = (typeof SIGNATURE_CHOICES.keyEncodings)[number];
export type SignedPayloadStrategy = (typeof SIGNATURE_CHOICES.strategies)[number];

/** The part of a manifest that runs follow, which is all that the store reads of it. */
export interface RunnableManifest {
  readonly steps: Graph;
  /** Time limit of a run. */
  readonly timeoutSeconds?: number | undefined;
  /** How many steps run at once, across all runs of this flow. */
  readonly concurrency?: number | undefined;
  /** Id of the flow that a failed run starts. */
  readonly onFailure?: string | undefined;
  /** Runs take the inputs of their steps from their own revision, not from the newest. */
  readonly pinInputs?: boolean | undefined;
  /** A CEL expression: runs with the same value run one at a time, in the order of their arrival. */
  readonly serialize?: string | undefined;
  readonly serializeOnFailure?: OnOrderFailure | undefined;
}

/** What a failed run means for runs with the same key: the next one starts, or none until an operator decides. */
export const ON_ORDER_FAILURE = ['continue', 'stop'] as const;
type OnOrderFailure = (typeof ON_ORDER_FAILURE)[number];

/** Steps by key. */
export type Graph = Readonly<Record<string, StepDefinition>>;

export interface PlacedStep {
  readonly step: StepDefinition;
  /** Such as `['steps', 'each', 'steps', 'call']`. */
  readonly at: readonly string[];
}

/** All steps of a graph in manifest order; the steps of a loop follow the loop. */
export function everyStep(graph: Graph, path: readonly string[] = ['steps']): PlacedStep[] {
  return Object.entries(graph).flatMap(([key, step]) => {
    const at = [...path, key];
    return [{ step, at }, ...everyStep(step.steps ?? {}, [...at, 'steps'])];
  });
}

export interface StepDefinition {
  /** Name of a handler. */
  readonly type: string;
  readonly inputs: JsonObject;
  /** By upstream step key: the statuses in which it must have ended. All edges must be satisfied. */
  readonly runAfter: Readonly<Record<string, Edge>>;
  readonly retry?: RetryPolicy | undefined;
  readonly timeoutSeconds?: number | undefined;
  /** How many steps of this type run at once, across all runs of the flow; the lowest value of several steps counts. */
  readonly concurrency?: number | undefined;
  /** For a loop: an array, or an expression that yields one. */
  readonly forEach?: Json | undefined;
  /** For a loop: how many iterations run at once. */
  readonly concurrencyLimit?: number | undefined;
  /** For a loop: the graph of its children, which runs once per item. */
  readonly steps?: Graph | undefined;
}

/** The type of steps that run their own steps for each item. */
export const LOOP = 'ForEach';

/** Fields that only loops have. */
export const LOOP_FIELDS = ['forEach', 'concurrencyLimit', 'steps'] as const;

/** The type of steps that run another flow. */
export const RUN_FLOW = 'RunFlow';

/** Inputs that a run takes from its own revision: the flows that it runs are fixed when it starts. */
export const PINNED_INPUTS = ['flow', 'wait'] as const;

/** How many flows can run each other in a chain, including the first. */
export const MAX_FLOW_DEPTH = 8;

/** Unique ids of the flows that a graph's steps run, including those in loops. Invalid ids are left out. */
export function subFlowsOf(graph: Graph): string[] {
  return [...new Set(everyStep(graph).flatMap(({ step }) => flowsRunBy(step)))];
}

/** Flows that runs of a manifest start, by their steps or when they fail. */
export function flowsStartedBy({ steps, onFailure }: Pick<RunnableManifest, 'steps' | 'onFailure'>): string[] {
  return [...subFlowsOf(steps), ...(onFailure === undefined ? [] : [onFailure])];
}

/** The id of the flow that a step itself runs; empty if the id is invalid, or the step runs no flow. */
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
  /** Total number of attempts, including the first. */
  readonly maxAttempts: number;
  readonly backoffSeconds: number;
  readonly factor: number;
  readonly maxBackoffSeconds: number;
  readonly jitter: boolean;
}

/** Where a manifest came from: the folder of manifests, or a request. */
export const MANIFEST_SOURCES = ['folder', 'api'] as const;
export type ManifestSource = (typeof MANIFEST_SOURCES)[number];

/** A stored manifest: `env:` and `file:` references kept, literal secrets masked. */
export type ManifestSnapshot = Json;
