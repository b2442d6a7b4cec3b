import type { Json } from './json.ts';

/** What a difference can do to runs in flight, to history or to access; from harmless to harmful. */
export const FINDING_CLASSES = ['safe', 'caution', 'breaking'] as const;
export type FindingClass = (typeof FINDING_CLASSES)[number];

/** How a deploy changes access by webhooks, apart from its class: a route accepts more, or less, or none changes. */
export const ACCESS = ['same', 'narrower', 'wider'] as const;
export type Access = (typeof ACCESS)[number];

export function widest(each: readonly Access[]): Access {
  if (each.includes('wider')) return 'wider';
  return each.includes('narrower') ? 'narrower' : 'same';
}

/** One name of a trigger, or several, by which more or fewer deliveries get in than before. */
export interface AccessRoute {
  /** Slugs, and the flow id. */
  readonly route: string;
  /** Key of the trigger that the route leads to, or led to if it was removed. */
  readonly trigger: string;
  readonly access: Access;
  /** Describes the accepted deliveries; null if the route did not exist before, or no longer does. */
  readonly before: string | null;
  readonly after: string | null;
  /** One sentence each. */
  readonly reasons: readonly string[];
}

/** Exceptions that let a deploy do what would be refused: two classes of findings, a rollback, and a wider route. */
export const OVERRIDES = ['caution', 'breaking', 'rollback', 'access'] as const;
export type Override = (typeof OVERRIDES)[number];

/** One difference between the deployed revision of a flow and its replacement. */
export interface Finding {
  /** Kebab-case name of the rule that found it, such as `step-removed`; stable, for machines. */
  readonly rule: string;
  readonly class: FindingClass;
  /** How the difference changes access; absent if it says nothing about that. */
  readonly access?: Access | undefined;
  /** JSON path in the new manifest, or in the old one if the new one has no such place. */
  readonly path: string;
  /** Absent if that side has no such place. Secrets are masked in both. */
  readonly before?: Json | undefined;
  readonly after?: Json | undefined;
  /** What changed, in one sentence. */
  readonly message: string;
  /** The possible effect, and who is affected; says if pinning makes a caution harmless for runs in flight. */
  readonly consequence: string;
  /** What to do about it, in one sentence; absent if nothing needs to be done. */
  readonly advice?: string | undefined;
  /** The affected runs: "3 runs are past `fetch`, 1 waits in `approve`". */
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
  /** ISO 8601: when retention will have deleted the last run that knows the old key. */
  readonly removableFrom?: string | undefined;
}

/** The store's facts about a flow that matter for a deploy. */
export interface LiveFlow {
  /** The number of all runs in flight. */
  readonly runsInFlight: number;
  /** Oldest first, at most a few hundred, with the steps that they have reached. */
  readonly runs: readonly LiveRun[];
  /**
   * Keys of top-level steps that did something in any stored run. A step does nothing in a run of a revision that
   * guards it with the condition `false`, or has made it a NoOp with nothing after it.
   */
  readonly stepsWithHistory: readonly string[];
  /** Start of the newest such run, by step key: milliseconds since the epoch. */
  readonly lastRunOfStep: Readonly<Record<string, number>>;
  /** Runs in flight of other flows that can start runs of this one, of their pinned revision; absent if none. */
  readonly callers?: Callers | undefined;
}

export interface Callers {
  readonly runsInFlight: number;
  /** Oldest first, at most a few hundred. */
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
  /** Status by top-level step key; absent if never due. `isWaiting`: between attempts, or for a time or a signal. */
  readonly steps: Readonly<Record<string, { readonly status: string; readonly isWaiting: boolean }>>;
}

export const DEPLOY_ACTIONS = ['created', 'updated', 'unchanged', 'refused'] as const;

/** The result of deploying one flow, or its preview if the deploy is only planned. */
export interface DeployOutcome {
  readonly flowId: string;
  readonly name: string;
  readonly version: string;
  readonly action: (typeof DEPLOY_ACTIONS)[number];
  /** The worst class among the findings; `safe` if there are none. */
  readonly class: FindingClass;
  /** How it changes access; the class is about runs. */
  readonly access: Access;
  /** The affected routes; empty if `access` is `same`. */
  readonly routes: readonly AccessRoute[];
  /** The revision in force afterwards; null if the flow is not deployed. */
  readonly revision: number | null;
  /** Runs of the flow, and of others that can start it. */
  readonly runsInFlight: number;
  readonly findings: readonly Finding[];
  /** Why it was refused and what to do; null if it was not refused. */
  readonly refusal: string | null;
  /** The earlier revision with this manifest; absent if the newest one or none has it. */
  readonly rollbackTo?: number | undefined;
  /** What the manifest will not do although it was not refused. */
  readonly warning?: string;
}
