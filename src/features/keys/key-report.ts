import { isReference } from '../../manifest/read-secret.ts';
import { type Clock, DAY_MS } from '../../model/clock.ts';
import { sameTrigger } from '../../model/trigger-name.ts';
import type { KeyRole, Store } from '../../store/store.ts';
import { fingerprintOf } from '../../webhooks/key-names.ts';
import type { PreparedTrigger, TriggerTable } from '../../webhooks/triggers.ts';
import { adviseOn, type KeyAdvice, UNUSED_DAYS } from './key-advice.ts';
import { type KeyFigures, type KeyUser, keysStore } from './store.ts';

/** One key of a trigger, and its use. */
export interface KeyReport {
  readonly flowId: string;
  readonly flowName: string;
  readonly triggerKey: string;
  /** `former`: one row for all keys that verified deliveries and that this process does not have (any more). */
  readonly role: KeyRole | 'former';
  /** See `fingerprintOf`; null also for a former key, of which only the name is known. */
  readonly fingerprint: string | null;
  /** As in the manifest, such as `env:NAME`; null for a key that was learnt or written out. */
  readonly reference: string | null;
  /** Start of its present role. */
  readonly since: number | null;
  readonly lastVerifiedAt: number | null;
  readonly count: number;
  /** Deliveries of the last 24 hours, from a whole hour. */
  readonly recent: number;
  /** Only for a previous key. */
  readonly advice: KeyAdvice['kind'] | null;
  /** The advice as a sentence; null if there is nothing to say. */
  readonly message: string | null;
  /** Senders of the last deliveries that needed it, if that is less than seven days ago. */
  readonly users: readonly KeySender[];
}

interface KeySender {
  readonly clientIp: string;
  readonly userAgent: string | null;
  readonly lastAt: number;
}

/** A report for display: times as ISO 8601. */
export interface KeyView extends Omit<KeyReport, 'since' | 'lastVerifiedAt' | 'recent' | 'users'> {
  readonly since: string | null;
  readonly lastVerifiedAt: string | null;
  readonly last24Hours: number;
  readonly users: { readonly clientIp: string; readonly userAgent: string | null; readonly lastAt: string }[];
}

export function keyView({ since, lastVerifiedAt, recent, users, ...report }: KeyReport): KeyView {
  const timeOf = (at: number | null) => (at === null ? null : new Date(at).toISOString());
  const shown = users.map((user) => ({ ...user, lastAt: new Date(user.lastAt).toISOString() }));
  return { ...report, since: timeOf(since), lastVerifiedAt: timeOf(lastVerifiedAt), last24Hours: recent, users: shown };
}

export interface ReportServices {
  readonly store: Pick<Store, 'of'>;
  readonly triggers: Pick<TriggerTable, 'list'>;
  readonly clock: Pick<Clock, 'now'>;
}

/**
 * Senders are looked up for at most this many triggers; with more keys in rotation, operators check them one by one.
 */
const ASKED_TRIGGERS = 20;
const ASKED_DELIVERIES = 100;

/** The keys of all triggers, or of one flow's, in the order of the manifests: current, previous, then former ones. */
export async function reportKeys(services: ReportServices, flowId?: string): Promise<KeyReport[]> {
  const { store, triggers, clock } = services;
  const now = clock.now();
  const figures = await store.of(keysStore).listKeyFigures({ flowId, recentSince: now - DAY_MS });
  const reports: KeyReport[] = [];
  let asked = 0;
  for (const prepared of triggers.list()) {
    const { trigger } = prepared;
    if (flowId !== undefined && trigger.flowId !== flowId) continue;
    const own = figures.filter((each) => sameTrigger(each, trigger));
    const known = figuresOf(prepared, own, now);
    const { advice, previous } = known;
    const isAsked = (advice?.kind === 'in_use' || advice?.kind === 'not_switched') && asked < ASKED_TRIGGERS;
    if (isAsked) asked += 1;
    const users = isAsked && previous !== undefined ? await usersOf(previous, store) : [];
    reports.push(...reportsOf(prepared, { ...known, now, users }));
  }
  return reports;
}

/** Figures of the keys of one trigger. */
interface TriggerKeyFigures {
  /** For each key in force, in the order of the manifest. */
  readonly inForce: readonly (KeyFigures | undefined)[];
  readonly previous: KeyFigures | undefined;
  readonly former: readonly KeyFigures[];
  readonly advice: KeyAdvice | undefined;
}

function figuresOf(prepared: PreparedTrigger, own: readonly KeyFigures[], now: number): TriggerKeyFigures {
  const [keys, previousKey] = [keysInForce(prepared), prepared.namedKey('previous')];
  const figuresOfKey = (key: NamedKey) => own.find(({ keyName }) => keyName === key?.name);
  const inForce = keys.map(figuresOfKey);
  const previous = previousKey && figuresOfKey(previousKey);
  const names = [...keys, previousKey].map((key) => key?.name);
  const former = own.filter(({ keyName }) => !names.includes(keyName));
  if (previousKey === undefined || keys[0] === undefined) return { inForce, previous, former, advice: undefined };
  const isSame = keys.some((key) => key?.text === previousKey.text);
  // The one used last: the previous key is replaced once the publisher signs with any key in force.
  const current = inForce.toSorted((one, other) => (other?.lastAt ?? 0) - (one?.lastAt ?? 0))[0];
  return { inForce, previous, former, advice: adviseOn({ now, isSame, current, previous, others: former }) };
}

type NamedKey = ReturnType<PreparedTrigger['namedKey']>;

/** The current key first; undefined if the trigger has none. */
export function keysInForce({ namedKey, trigger }: Pick<PreparedTrigger, 'namedKey' | 'trigger'>): NamedKey[] {
  return [namedKey('current'), ...(trigger.keys.others ?? []).map((_, at) => namedKey('current', at))];
}

async function usersOf(
  { flowId, triggerKey, lastId, roleSince }: KeyFigures,
  store: ReportServices['store'],
): Promise<KeySender[]> {
  if (lastId === null) return [];
  const query = { flowId, triggerKey, upTo: lastId, since: roleSince ?? 0, limit: ASKED_DELIVERIES };
  return sendersOf(await store.of(keysStore).listKeyUsers(query));
}

const MAX_USER_AGENT = 120;

/** Each address and user agent once, the latest first. */
function sendersOf(users: readonly KeyUser[]): KeySender[] {
  const senders = new Map<string, KeySender>();
  for (const { clientIp, headers, receivedAt } of users) {
    const userAgent = headers['user-agent']?.slice(0, MAX_USER_AGENT) ?? null;
    const key = JSON.stringify([clientIp, userAgent]);
    if (!senders.has(key)) senders.set(key, { clientIp, userAgent, lastAt: receivedAt });
  }
  return [...senders.values()];
}

interface Reported extends TriggerKeyFigures {
  readonly now: number;
  readonly users: readonly KeySender[];
}

function reportsOf(prepared: PreparedTrigger, reported: Reported): KeyReport[] {
  const { flowId, flowName, triggerKey } = prepared.trigger;
  const of = (role: KeyReport['role'], figures: KeyFigures | undefined) => ({
    ...{
      flowId,
      flowName,
      triggerKey,
      role,
      fingerprint: null,
      reference: null,
      advice: null,
      message: null,
      users: [],
    },
    since: figures?.role === role ? figures.roleSince : null,
    lastVerifiedAt: figures?.lastAt ?? null,
    count: figures?.count ?? 0,
    recent: figures?.recent ?? 0,
  });
  const reportOf = (role: KeyRole, key: NamedKey, [at, figures]: [number, KeyFigures | undefined]): KeyReport[] => {
    if (key === undefined) return [];
    const fingerprint = fingerprintOf(key) ?? null;
    return [{ ...of(role, figures), fingerprint, reference: referenceOf(prepared, role, at) }];
  };
  const { advice, inForce, previous } = reported;
  // If one key is both current and previous, its uses count for the current one.
  const ofPrevious = advice?.kind === 'same_key' ? undefined : previous;
  const told = advice && {
    advice: advice.kind,
    message: messageOf(prepared, advice, reported),
    users: reported.users,
  };
  const configured = [
    ...keysInForce(prepared).flatMap((key, at) => reportOf('current', key, [at, inForce[at]])),
    ...reportOf('previous', prepared.namedKey('previous'), [0, ofPrevious]).map((report) => ({ ...report, ...told })),
  ];
  // Former keys cannot be told apart, so they share one row.
  const used = reported.former.filter(({ count }) => count > 0);
  if (used.length === 0) return configured;
  const [count, recent] = [sumOf(used.map((each) => each.count)), sumOf(used.map((each) => each.recent))];
  const lastVerifiedAt = Math.max(...used.map(({ lastAt }) => lastAt ?? 0));
  return [...configured, { ...of('former', undefined), count, recent, lastVerifiedAt }];
}

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

const FIELDS = {
  current: ['webhookHmacKey', 'webhookSecret'],
  previous: ['webhookHmacKeyPrevious', 'webhookSecretPrevious'],
} as const;

/** The field that the key is read from. */
function fieldOf({ trigger: { inputs } }: PreparedTrigger, role: KeyRole) {
  return FIELDS[role].find((field) => inputs[field] !== undefined);
}

function referenceOf(prepared: PreparedTrigger, role: KeyRole, at = 0): string | null {
  const field = fieldOf(prepared, role);
  const text =
    field === undefined ? undefined : [prepared.trigger.inputs[field] ?? []].flat().filter((each) => each !== '')[at];
  return text !== undefined && isReference(text) ? text : null;
}

function messageOf(prepared: PreparedTrigger, advice: KeyAdvice, { previous, now, users }: Reported): string | null {
  const { flowName, triggerKey } = prepared.trigger;
  const trigger = `${flowName}/${triggerKey}`;
  const named = (role: KeyRole) => {
    const reference = referenceOf(prepared, role);
    return reference === null ? '' : ` (${reference})`;
  };
  const removal = `Remove ${fieldOf(prepared, 'previous')}${named('previous')} from the manifest`;
  switch (advice.kind) {
    case 'same_key':
      return `The previous key of ${trigger} is the same as its current one. ${removal}`;
    case 'in_use':
      return `The previous key of ${trigger}${named('previous')} is still used${senders(' by ', users)}: ${use(advice.lastAt, previous)}`;
    case 'not_switched':
      return `No delivery to ${trigger} was signed with its current key${named('current')} yet. The publisher still signs with the previous one${named('previous')}: ${use(advice.lastAt, previous)}${senders(', from ', users)}. Enter the current key there`;
    case 'keys_differ':
      return `The previous key of ${trigger}${named('previous')} may still be needed: until ${iso(advice.lastAt)} another process verified deliveries with a key that this one does not have. Give all replicas the same secrets`;
    case 'may_go': {
      const days = Math.floor((now - advice.unusedSince) / DAY_MS);
      const unused =
        advice.lastAt === null ? `never used since it was replaced ${days} days ago` : `not used for ${days} days`;
      const count = advice.deliveries === 1 ? '1 delivery' : `${advice.deliveries} deliveries`;
      return `The previous key of ${trigger} may go: ${unused}, ${count} with the current one since. ${removal}`;
    }
    case 'wait':
      if (advice.unusedSince === null) return null;
      return `The previous key of ${trigger}${named('previous')} has not been used since ${iso(advice.unusedSince)}. It may go once that is ${UNUSED_DAYS} days ago and deliveries have come that the current key verified`;
  }
}

/** Three senders identify the one to ask, or show that all still use the key. */
const NAMED_SENDERS = 3;

function senders(word: string, users: readonly KeySender[]): string {
  if (users.length === 0) return '';
  const named = users
    .slice(0, NAMED_SENDERS)
    .map(({ clientIp, userAgent }) => (userAgent === null ? clientIp : `${clientIp} ("${userAgent}")`));
  const more = users.length - named.length;
  return `${word}${[...named, ...(more > 0 ? [`${more} more`] : [])].join(', ')}`;
}

function use(lastAt: number, figures: KeyFigures | undefined): string {
  const recent = figures?.recent ?? 0;
  return `${recent === 1 ? '1 delivery' : `${recent} deliveries`} in 24 hours, the last one at ${iso(lastAt)}`;
}

function iso(at: number): string {
  return new Date(at).toISOString().replace(/\.\d+Z$/, 'Z');
}
