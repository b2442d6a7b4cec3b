import type { Json } from './json.ts';

/** What a difference may do to runs in flight, to history or to who gets in; the order is from harmless to harmful. */
export const FINDING_CLASSES = ['safe', 'caution', 'breaking'] as const;
export type FindingClass = (typeof FINDING_CLASSES)[number];

/** What a deploy does to who gets in by webhooks, next to its class: more passes somewhere, less, or neither. */
export const ACCESS = ['same', 'narrower', 'wider'] as const;
export type Access = (typeof ACCESS)[number];

/** A name, or several of one trigger, by which more or fewer get in than before. */
export interface AccessRoute {
  /** Slugs, and the id of the flow. */
  readonly route: string;
  /** Key of the trigger that it leads to, or led to where it is gone. */
  readonly trigger: string;
  readonly access: Access;
  /** Who gets in, in words; null where there was no such route, or is none any more. */
  readonly before: string | null;
  readonly after: string | null;
  /** One sentence each. */
  readonly reasons: readonly string[];
}

/**
 * What a deploy may be told to do although it would be refused: two classes of findings, an earlier revision, and a route
 * by which more get in.
 */
export const OVERRIDES = ['caution', 'breaking', 'rollback', 'access'] as const;
export type Override = (typeof OVERRIDES)[number];

/** One difference between the deployed revision of a flow and the one that would take its place. */
export interface Finding {
  /** Kebab-case name of the rule that found it, such as `step-removed`; stable, for machines. */
  readonly rule: string;
  readonly class: FindingClass;
  /** What the difference does to who gets in; absent where it says nothing about that. */
  readonly access?: Access | undefined;
  /** JSON path in the new manifest, or in the old one where the new one has no such place. */
  readonly path: string;
  /** Absent where that side has no such place. Secrets are masked in both. */
  readonly before?: Json | undefined;
  readonly after?: Json | undefined;
  /** What changed, in one sentence. */
  readonly message: string;
  /** What could happen, and to whom; says plainly where pinning makes a caution harmless for runs in flight. */
  readonly consequence: string;
  /** What to do about it, in one sentence; absent where there is nothing to do. */
  readonly advice?: string | undefined;
  /** The runs that are where the change matters: "3 runs are past `fetch`, 1 waits in `approve`". */
  readonly live?: string | undefined;
  /** The exact edit that keeps history readable; breaking findings have one. */
  readonly recipe?: Recipe | undefined;
}

interface Recipe {
  readonly title: string;
  /** In order, one sentence each. */
  readonly steps: readonly string[];
  /** The parts of the manifest to write, as a JSON merge patch (RFC 7396) onto the new manifest. */
  readonly patch?: Json | undefined;
  /** ISO 8601: from then on retention has let the last run go that knows the old key. */
  readonly removableFrom?: string | undefined;
}

/** What the store knows of a flow that bears on a deploy. */
export interface LiveFlow {
  /** Runs in flight, all of them. */
  readonly runsInFlight: number;
  /** The oldest of them first, at most a few hundred, with the steps they have reached. */
  readonly runs: readonly LiveRun[];
  /**
   * Top-level step keys that any kept run did something in. A run of a revision that guards the step with the condition
   * `false`, or has made it a NoOp with nothing after it, did nothing.
   */
  readonly stepsWithHistory: readonly string[];
  /** When the newest such run was started, by step key: milliseconds since the epoch. */
  readonly lastRunOfStep: Readonly<Record<string, number>>;
  /** Runs in flight of other flows that may start runs of this one, of the revision that they have pinned; absent if none. */
  readonly callers?: Callers | undefined;
}

export interface Callers {
  readonly runsInFlight: number;
  /** The oldest of them first, at most a few hundred. */
  readonly runs: readonly {
    readonly id: string;
    readonly flowId: string;
    readonly flowName: string;
    readonly startedAt: number;
  }[];
}

export interface LiveRun {
  readonly id: string;
  readonly revision: number;
  readonly triggerKey: string;
  readonly startedAt: number;
  /** Status by top-level step key; a step without a row is absent. `isWaiting`: between attempts, or for a time or a signal. */
  readonly steps: Readonly<Record<string, { readonly status: string; readonly isWaiting: boolean }>>;
}

export const DEPLOY_ACTIONS = ['created', 'updated', 'unchanged', 'refused'] as const;

/** What a deploy of one flow did, or would do where it is only planned. */
export interface DeployOutcome {
  readonly flowId: string;
  readonly name: string;
  readonly version: string;
  readonly action: (typeof DEPLOY_ACTIONS)[number];
  /** The gravest class among the findings; `safe` where there are none. */
  readonly class: FindingClass;
  /** What it does to who gets in, next to the class, which is about runs. */
  readonly access: Access;
  /** Where it does something to that; empty where `access` is `same`. */
  readonly routes: readonly AccessRoute[];
  /** The revision in force afterwards; null where the flow is not deployed. */
  readonly revision: number | null;
  /** Of the flow, and of others that may start it. */
  readonly runsInFlight: number;
  readonly findings: readonly Finding[];
  /** Why it was refused and what to do; null if it was not refused. */
  readonly refusal: string | null;
  /** The earlier revision that has this manifest; absent where the newest has it, or none. */
  readonly rollbackTo?: number | undefined;
  /** What the manifest does not do although it was not refused. */
  readonly warning?: string;
}
