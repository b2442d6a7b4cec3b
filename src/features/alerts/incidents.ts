import type { Catalog } from '../../flows/catalog.ts';
import type { AttentionKind, Severity } from '../../model/attention.ts';
import type { AccessRoute, Finding } from '../../model/finding.ts';
import { ALERT_FLOW_ID } from '../../model/manifest.ts';
import type { Cause, Incident } from './alert-plan.ts';
import type { FailedRunNotice } from './store.ts';
import { isAlertKind } from './targets.ts';

/** A condition that lasts and needs a person. */
export interface Concern {
  readonly kind: AttentionKind;
  readonly severity: Severity;
  readonly message: string;
  /** Stays the same while numbers in the message grow, except for times in it. */
  readonly link: string;
  readonly flowId: string | null;
  readonly triggerKey: string | null;
  /** Distinguishes it from others with the same kind, flow and trigger; the link if not given. */
  readonly about?: string | undefined;
}

/** A deploy that was refused, or that changes who gets in. */
export interface ToldDeploy {
  readonly flowId: string;
  readonly name: string;
  readonly refusal: string | null;
  readonly routes: readonly AccessRoute[];
  readonly findings: readonly Pick<Finding, 'rule' | 'message'>[];
}

/** A cause before its key is computed from the parts that identify it within its kind. */
export interface Unnamed extends Omit<Cause, 'key'> {
  readonly cause: readonly string[];
}

export function concernCause(catalog: Pick<Catalog, 'find'>) {
  return ({ kind, severity, message, link, flowId, triggerKey, about }: Concern): Unnamed[] => {
    if (!isAlertKind(kind)) return [];
    const record = flowId === null ? undefined : catalog.find(flowId)?.record;
    const flow = record === undefined ? null : { id: record.id, name: record.name };
    const cause = [flowId ?? '', triggerKey ?? '', about ?? link.replace(/&?\b(since|until)=[^&]*/g, '')];
    return [{ kind, severity, cause, flow, trigger: triggerKey, text: message, link }];
  };
}

type UnnamedIncident = Unnamed & Omit<Incident, 'key'>;

export function accessIncidents({ flowId, name, routes, findings }: ToldDeploy): Omit<UnnamedIncident, 'at'>[] {
  const opened = routes.filter(({ access }) => access === 'wider');
  const named = opened.map(({ route, reasons }) => `${route}: ${reasons.join(' ')}`).join(' ');
  const changed = findings.filter(({ rule }) => rule === 'secret-changed').map(({ message }) => message);
  const about = {
    kind: 'access.widened',
    severity: 'warning',
    flow: { id: flowId, name },
    link: `/flows/flows/${flowId}`,
    allLink: null,
    count: 1,
  } as const;
  const triggers = new Set(opened.map(({ trigger }) => trigger));
  const [trigger = null] = triggers.size === 1 ? triggers : [];
  const widened = {
    ...about,
    trigger,
    cause: [flowId, 'routes'],
    text: `More deliveries get in to ${name}: ${shortened(named)}`,
    what: [`change lets more deliveries in to ${name}`, `changes let more deliveries in to ${name}`],
  } as const;
  const secrets = {
    ...about,
    trigger: null,
    cause: [flowId, 'secrets'],
    text: `Secrets of ${name} changed: ${shortened(changed.join(' '))}`,
    what: [`change of secrets of ${name}`, `changes of secrets of ${name}`],
  } as const;
  return [...(opened.length > 0 ? [widened] : []), ...(changed.length > 0 ? [secrets] : [])];
}

export const refusedCause = (flowId: string) => ['deploy.refused', flowId];

export function refusedIncident({ flowId, name, refusal }: ToldDeploy): Omit<UnnamedIncident, 'at'> {
  return {
    kind: 'deploy.refused',
    severity: 'warning',
    cause: [flowId],
    flow: { id: flowId, name },
    trigger: null,
    text: `A deploy of ${name} was refused: ${shortened(refusal ?? '')}`,
    link: `/flows/flows/${flowId}`,
    allLink: null,
    count: 1,
    what: [`deploy of ${name} was refused`, `deploys of ${name} were refused`],
  };
}

/**
 * One incident for each cause: flow, step and code of the error. Runs that notify a target are left out: the attention
 * list reports undelivered alerts.
 */
export function failureIncidents(failures: readonly FailedRunNotice[]): UnnamedIncident[] {
  const byCause = new Map<string, FailedRunNotice[]>();
  for (const notice of failures) {
    if (notice.flowId === ALERT_FLOW_ID) continue;
    const cause = JSON.stringify(causeOf(notice));
    byCause.set(cause, [...(byCause.get(cause) ?? []), notice]);
  }
  return [...byCause.values()].flatMap((notices): UnnamedIncident[] => {
    const [first] = notices;
    const last = notices.at(-1);
    if (first === undefined || last === undefined) return [];
    const { flowId, flowName: name, runId, triggerKey: trigger } = first;
    const allLink = failuresPath(notices, first);
    const several = `${notices.length} runs of ${name} failed, the first ${whyFailed(first)}`;
    return [
      {
        kind: 'run.failed',
        severity: 'error',
        cause: causeOf(first),
        flow: { id: flowId, name },
        trigger,
        text: notices.length === 1 ? `A run of ${name} failed ${whyFailed(first)}` : several,
        link: notices.length === 1 ? `/flows/runs/${runId}` : allLink,
        allLink,
        count: notices.length,
        at: Math.max(...notices.map(({ completedAt }) => completedAt)),
        what: [`run of ${name} failed`, `runs of ${name} failed`],
        failedAt: { runId: last.runId, stepKey: last.stepKey?.split('.')[0] ?? null },
      },
    ];
  });
}

/** All iterations of a loop have one cause. */
function causeOf({ flowId, status, stepKey, error }: FailedRunNotice): string[] {
  if (status === 'TimedOut') return [flowId, 'TimedOut'];
  return [flowId, stepKey?.replaceAll(/\.\d+\./g, '.') ?? '', error?.code ?? ''];
}

/** Path of the list of runs with the same failure, from the first one on. */
function failuresPath(
  notices: readonly FailedRunNotice[],
  { flowId, status, stepKey, error }: FailedRunNotice,
): string {
  const since = new Date(Math.min(...notices.map(({ startedAt }) => startedAt))).toISOString();
  const why = status === 'TimedOut' ? {} : { step: stepKey, code: error?.code };
  const filters = Object.entries({ status, flowId, ...why, since }).filter(([, value]) => value != null);
  return `/flows/runs?${new URLSearchParams(filters as [string, string][])}`;
}

function whyFailed({ status, stepKey, error }: FailedRunNotice): string {
  if (status === 'TimedOut') return 'because it reached its time limit';
  if (stepKey === null) return 'without an error of a step';
  return `at ${stepKey}: ${shortened(error?.message ?? 'no error was stored')}`;
}

const MOST_CHARACTERS = 300;

function shortened(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length <= MOST_CHARACTERS
    ? line
    : `${line.slice(0, MOST_CHARACTERS - 1).replace(/\p{Surrogate}$/u, '')}…`;
}
