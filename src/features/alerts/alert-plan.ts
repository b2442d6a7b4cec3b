import { SEVERITIES, type Severity } from '../../model/attention.ts';
import { type AlertKind, type AlertTarget, isProgram } from './targets.ts';

/** Something that went wrong, or still is wrong, and that targets can be notified of. */
export interface Cause {
  /** Identifies the cause, for recipients too: alerts with the same key have the same cause. */
  readonly key: string;
  readonly kind: AlertKind;
  readonly severity: Severity;
  /** The flow that it belongs to, by id and name. */
  readonly flow: { readonly id: string; readonly name: string } | null;
  readonly trigger: string | null;
  /** One sentence. */
  readonly text: string;
  /** Path of the page about it. */
  readonly link: string | null;
}

/** Something that happened, once or several times; ends once it would not happen again, or after a day without it. */
export interface Incident extends Cause {
  readonly count: number;
  /** Time of the last occurrence, milliseconds since the Unix epoch. */
  readonly at: number;
  /** What is counted, in singular and plural: "run of orders failed", "runs of orders failed". */
  readonly what: readonly [one: string, many: string];
  /** Path of the page with all occurrences. */
  readonly allLink: string | null;
  /** Only for failed runs: the incident ends when a later run gets past this step, or the failed run succeeds. */
  readonly failedAt?: { readonly stepKey: string | null; readonly runId: string };
}

/** A cause since it fired. */
export interface Alert extends Cause {
  /** When it fired. */
  readonly since: number;
  /** Null for a condition, which lasts. */
  readonly happened:
    | (Omit<Incident, keyof Cause> & {
        /** How often it happened when `text` was written. */
        readonly firstCount: number;
      })
    | null;
  /** When the cause went away; null while it is present. */
  readonly goneAt: number | null;
  /** Null while it fires. */
  readonly resolvedAt: number | null;
  /** Whether it fired again soon after it was resolved. */
  readonly isRecurrent: boolean;
}

/** Memory between two looks; kept in the store, as JSON. */
export interface AlertState {
  /** By key: alerts that fire, were resolved lately, or have yet to be sent. */
  readonly alerts: Readonly<Record<string, Alert>>;
  readonly targets: Readonly<Record<string, TargetState>>;
  /** Start times of processes that run or ended out of order, by the key of their `not_ready` alert. */
  readonly running?: Readonly<Record<string, number>>;
}

interface TargetState {
  /** Its last message, and the run that sends it. */
  readonly sentAt: number | null;
  readonly runId: string | null;
  /** The last message about each alert. */
  readonly told: Readonly<Record<string, Told>>;
}

interface Told {
  readonly status: Change['status'];
  readonly at: number;
  /** Number of occurrences then. */
  readonly count: number;
  /** The run that sends it; null if it was sent directly. */
  readonly runId: string | null;
}

export const NO_ALERTS: AlertState = { alerts: {}, targets: {} };

/** A change of one alert that a target is to be notified of. */
export interface Change
  extends Pick<Alert, 'key' | 'kind' | 'severity' | 'flow' | 'trigger' | 'since' | 'text' | 'link'> {
  readonly status: 'firing' | 'resolved';
}

interface DirectlyTold extends Cause {
  readonly since: number;
  /** It is unknown whether this was sent: only programs hear of its end, because they know if it is open. */
  readonly isDoubtful?: boolean;
}

interface Situation {
  readonly state: AlertState;
  /** Incidents since the last look. */
  readonly happened?: readonly Incident[];
  /** Keys of incidents that are known to be over. */
  readonly over?: ReadonlySet<string> | undefined;
  /** Conditions that hold now; undefined if unknown. */
  readonly lasting?: readonly Cause[] | undefined;
  /** Ended causes, with their start, that targets were notified of directly because nothing could be stored. */
  readonly toldDirectly?: readonly DirectlyTold[];
  readonly targets: readonly AlertTarget[];
  /** Runs that are still sending something to a program. */
  readonly inFlight?: ReadonlySet<string>;
  readonly repeatMs: number;
  readonly now: number;
  /** Makes the id of a run that notifies a target. */
  readonly newId: () => string;
}

interface Planned {
  readonly state: AlertState;
  /** Messages to send now: at most one to a target for people, one for each alert to a program. */
  readonly messages: readonly PlannedMessage[];
}

export interface PlannedMessage {
  readonly target: string;
  readonly runId: string;
  readonly changes: readonly Change[];
  /** Number of alerts without a line. */
  readonly more: number;
  readonly counts: Readonly<Record<Change['status'], number>>;
}

/** Lines of one message to people (others are counted), and messages to a program in its interval (others wait). */
const MOST_CHANGES = 10;
/** Alerts in the state. While so many fire, new incidents are not reported, and new conditions are reported later. */
const MOST_ALERTS = 2000;
/** Repeats a condition to people after a day; ends an incident after a day without it. */
const DAY_MS = 86_400_000;
/** A cause that comes back sooner was never gone. */
const RESOLVE_AFTER_MS = 15_000;

/**
 * Decides which alerts fire and end, which messages to send now, and what to remember. Pure, so that a replica can plan
 * again if another one was faster.
 *
 * Alerts are states: a target is notified of changes since its last message, so nothing is sent twice, and a target
 * that is new, or back after a restart, learns which alerts fire. People get at most one message in their interval, ten
 * lines and a number, and each alert once within `repeatMs`; then the number of occurrences since. Programs get a
 * message for each alert that fires or ends, at most ten in their interval; alerts that ended before that are left out.
 */
export function planAlerts(situation: Situation): Planned {
  const { state, targets, now } = situation;
  const alerts = alertsNow(situation);
  const told = new Map(targets.map(({ name }) => [name, toldOf(stateOf(name, state), alerts)] as const));
  for (const cause of situation.toldDirectly ?? []) {
    const ended = { ...newAlert(cause, cause.since, undefined), goneAt: now, resolvedAt: now };
    alerts.set(cause.key, ended);
    for (const target of targets) {
      const status = cause.isDoubtful !== true || isProgram(target) ? 'firing' : 'resolved';
      if (wants(target, cause))
        told.get(target.name)?.set(cause.key, { status, at: cause.since, count: 0, runId: null });
    }
  }
  const texts = new Map(situation.lasting?.map(({ key, text }) => [key, text]));
  const messages: PlannedMessage[] = [];
  // Alerts that some target still has to hear of, or still has to hear the end of.
  const untold = new Set<string>();
  const states = targets.map((target): [string, TargetState] => {
    const known = told.get(target.name) ?? new Map<string, Told>();
    let { sentAt = null, runId = null } = stateOf(target.name, state) ?? {};
    const changes = changesFor(target, { ...situation, alerts, known, texts });
    const isDue = sentAt === null || isPast(sentAt, target.intervalSeconds * 1000, now);
    const sent = !isDue ? [] : isProgram(target) ? changes.slice(0, MOST_CHANGES).map((each) => [each]) : [changes];
    for (const parts of sent) {
      if (parts.length === 0) continue;
      sentAt = now;
      runId = situation.newId();
      messages.push(messageOf(target.name, runId, parts));
      for (const { key, status } of parts) {
        const { since = now, happened } = alerts.get(key) ?? {};
        const isFirst = status === 'firing' && !isToldOf(known.get(key), since);
        known.set(key, { status, at: now, count: (isFirst ? happened?.firstCount : happened?.count) ?? 0, runId });
      }
    }
    const isSaid = new Set(sent.flat().map(({ key }) => key));
    for (const { key } of changes) if (!isSaid.has(key)) untold.add(key);
    for (const [key, { status }] of known) if (status === 'firing') untold.add(key);
    return [target.name, { sentAt, runId, told: Object.fromEntries(known) }];
  });
  for (const [key, { resolvedAt }] of alerts) {
    if (resolvedAt !== null && isPast(resolvedAt, situation.repeatMs, now) && !untold.has(key)) alerts.delete(key);
  }
  const kept = states.map(([name, each]): [string, TargetState] => {
    const entries = Object.entries(each.told).filter(([key]) => alerts.has(key));
    return [name, { ...each, told: Object.fromEntries(entries) }];
  });
  const { running = {} } = state;
  return { state: { running, alerts: Object.fromEntries(alerts), targets: Object.fromEntries(kept) }, messages };
}

/** Number of alerts that the next message to a target would report. */
export function countWaiting(
  target: AlertTarget,
  { state, repeatMs, now }: Pick<Situation, 'state' | 'repeatMs' | 'now'>,
): number {
  const alerts = new Map(Object.entries(state.alerts));
  const known = toldOf(stateOf(target.name, state), alerts);
  return changesFor(target, { alerts, known, repeatMs, now }).length;
}

/** Also true if the clock was set back: then we take it that the time has passed. */
function isPast(at: number, ms: number, now: number): boolean {
  return now - at >= ms || at > now;
}

function alertsNow({ state, happened = [], over, lasting, repeatMs, now }: Situation): Map<string, Alert> {
  const alerts = new Map(Object.entries(state.alerts));
  const fire = (cause: Cause, incident?: Incident) => {
    const known = alerts.get(cause.key);
    if (known === undefined && !hasRoom(alerts, state)) return;
    const isNew = known === undefined || known.resolvedAt !== null;
    const alert = isNew ? newAlert(cause, now, incident) : happenedAgain(known, cause, incident);
    alerts.set(cause.key, { ...alert, isRecurrent: isNew ? known !== undefined : known.isRecurrent });
  };
  for (const incident of happened) fire(incident, incident);
  for (const cause of lasting ?? []) fire(cause);
  const again = new Set(happened.map(({ key }) => key));
  const present = lasting && new Set(lasting.map(({ key }) => key));
  for (const [key, alert] of alerts) {
    if (alert.resolvedAt !== null) continue;
    const isOld = alert.happened !== null && now - Math.max(alert.happened.at, alert.since) >= DAY_MS;
    const isOver = over?.has(key) === true && !again.has(key);
    const isGone = alert.happened === null ? present?.has(key) === false : isOld || isOver;
    const goneAt = alert.goneAt ?? (isGone ? now : null);
    if (goneAt === null) continue;
    // A recurrent alert is resolved only after a longer absence.
    const isResolved = isOld || isPast(goneAt, alert.isRecurrent ? repeatMs : RESOLVE_AFTER_MS, now);
    alerts.set(key, { ...alert, goneAt, resolvedAt: isResolved ? now : null });
  }
  return alerts;
}

/** Makes room for one more by forgetting a resolved alert whose end no target waits to hear; false if there is none. */
function hasRoom(alerts: Map<string, Alert>, { targets }: AlertState): boolean {
  if (alerts.size < MOST_ALERTS) return true;
  const all = Object.values(targets);
  for (const [key, { resolvedAt }] of alerts) {
    const isOwed = all.some(({ told }) => told[key]?.status === 'firing');
    if (resolvedAt !== null && !isOwed) return alerts.delete(key);
  }
  return false;
}

function newAlert(cause: Cause, now: number, incident: Incident | undefined): Alert {
  const { key, kind, severity, flow, trigger, text, link } = cause;
  const about = { key, kind, severity, flow, trigger, text, link };
  const happened = incident === undefined ? null : { ...factsOf(incident), firstCount: incident.count };
  return { ...about, since: now, happened, goneAt: null, resolvedAt: null, isRecurrent: false };
}

function factsOf({ count, at, what, allLink, failedAt }: Incident): Omit<Incident, keyof Cause> {
  return { count, at, what, allLink, ...(failedAt && { failedAt }) };
}

/** Keeps the first text: numbers in the texts of conditions change all the time. */
function happenedAgain(known: Alert, { severity }: Cause, incident: Incident | undefined): Alert {
  if (incident === undefined || known.happened === null) return { ...known, severity, goneAt: null };
  const { firstCount, allLink } = known.happened;
  const happened = { ...factsOf(incident), count: known.happened.count + incident.count, firstCount, allLink };
  return { ...known, happened, goneAt: null };
}

/** The state of a target that had a message before; a target can have any name, also that of an inherited property. */
function stateOf(name: string, { targets }: AlertState): TargetState | undefined {
  return Object.hasOwn(targets, name) ? targets[name] : undefined;
}

/** A new target counts as notified of all alerts that are over. */
function toldOf(known: TargetState | undefined, alerts: ReadonlyMap<string, Alert>): Map<string, Told> {
  if (known !== undefined) return new Map(Object.entries(known.told));
  const over = [...alerts].filter(([, { resolvedAt }]) => resolvedAt !== null);
  return new Map(over.map(([key, { since }]) => [key, { status: 'resolved', at: since, count: 0, runId: null }]));
}

interface Knowledge extends Pick<Situation, 'inFlight' | 'repeatMs' | 'now'> {
  readonly alerts: ReadonlyMap<string, Alert>;
  readonly known: ReadonlyMap<string, Told>;
  /** Current texts of conditions, by key. */
  readonly texts?: ReadonlyMap<string, string>;
}

/** Whether the target was notified after the alert fired. */
function isToldOf(told: Told | undefined, since: number): told is Told {
  return told !== undefined && told.at >= since;
}

/** Firing alerts first, then by severity. */
function changesFor(target: AlertTarget, knowledge: Knowledge): Change[] {
  const changes = [...knowledge.alerts.values()].flatMap((alert) => changeOf(target, alert, knowledge) ?? []);
  const rank = ({ status, severity }: Change) => (status === 'firing' ? 0 : 3) + SEVERITIES.indexOf(severity);
  return changes.sort((one, other) => rank(one) - rank(other));
}

/** The change to send to a target about an alert; undefined if it knows already. */
function changeOf(target: AlertTarget, alert: Alert, knowledge: Knowledge): Change | undefined {
  const { known, inFlight, repeatMs, now, texts } = knowledge;
  const { key, kind, severity, flow, trigger, since, text, link, happened } = alert;
  const told = known.get(key);
  const isFiring = alert.resolvedAt === null && wants(target, alert);
  const change = (status: Change['status'], more: Partial<Pick<Change, 'text' | 'link'>> = {}): Change => ({
    ...{ status, key, kind, severity, flow, trigger, since, text, link },
    ...more,
  });
  const isKnown = told?.status === 'firing';
  if (isProgram(target)) {
    // Otherwise the end could arrive before the beginning.
    const isSending = told?.runId != null && inFlight?.has(told.runId) === true;
    return isFiring === isKnown || isSending ? undefined : change(isFiring ? 'firing' : 'resolved');
  }
  const isTold = isToldOf(told, since);
  const said = isTold ? told.count : isKnown ? 0 : happened?.firstCount;
  const missed = (happened?.count ?? 0) - (said ?? 0);
  const counted = happened === null || missed <= 0 ? '' : `${missed} more ${happened.what[missed === 1 ? 0 : 1]}`;
  if (!isFiring) {
    // People also hear of an alert that was over before they could be notified.
    const isNews = isKnown || (!isTold && wants(target, alert));
    return isNews ? change('resolved', counted === '' ? {} : { text: `${text}; ${counted}` }) : undefined;
  }
  if (!isKnown) return change('firing', { text: texts?.get(key) ?? text });
  if (counted !== '' && isPast(told.at, repeatMs, now)) {
    const summary = `${counted} since ${new Date(told.at).toISOString().slice(0, 16)}Z`;
    return change('firing', { text: summary, link: happened?.allLink ?? link });
  }
  if (happened === null && isPast(told.at, DAY_MS, now)) return change('firing', { text: texts?.get(key) ?? text });
  return undefined;
}

function messageOf(target: string, runId: string, changes: readonly Change[]): PlannedMessage {
  const firing = changes.filter(({ status }) => status === 'firing').length;
  const shown = changes.slice(0, MOST_CHANGES);
  const counts = { firing, resolved: changes.length - firing };
  return { target, runId, changes: shown, more: changes.length - shown.length, counts };
}

/** Whether a target wants to be notified of a cause. */
export function wants(
  { kinds, severities, flows }: AlertTarget,
  { kind, severity, flow }: Pick<Cause, 'kind' | 'severity' | 'flow'>,
): boolean {
  if (!kinds.includes(kind) || !severities.some((each) => each === severity)) return false;
  if (flows === undefined) return true;
  return flow !== null && flows.some((each) => each.toLowerCase() === flow.id || each === flow.name);
}
