import type { Chance } from '../chance.ts';
import { FLOWS, UNKNOWN_ID } from './same-answers-flows.ts';
import type { Ask, Pair } from './same-answers-pair.ts';

/** What stories know of both services: labels of what they made, and times between two stories. */
export interface Known {
  readonly runs: string[];
  readonly deliveries: string[];
  readonly interventions: string[];
  /** Runs that have a loop. */
  readonly loops: string[];
  /** Paths of steps that were seen. */
  readonly steps: string[];
  /** Of runs that nothing else started with; labels. */
  readonly starts: string[];
  readonly arrivals: string[];
  /** ISO 8601: nothing happened in the millisecond. */
  readonly pauses: string[];
  /** Minutes since the epoch, whose figures are not the same in both services; no pause is in them. */
  readonly mixedMinutes: Set<number>;
  /** Nonces, idempotency keys and search keys that were used. */
  readonly used: string[];
}

export const TEXTS = [
  'Order 7',
  'order 7',
  'ORDER',
  'é',
  'e\u0301',
  'İ',
  'ss',
  'ß',
  '😀',
  '%',
  '_',
  'a_b',
  '\\',
  "'",
  '"',
  'xyz',
  'ö',
  'Ö',
  'Σ',
  'ς',
  'n~o',
] as const;
const ODD = [
  '',
  ' ',
  '\0',
  'a\0b',
  '\u2028',
  '\u202e',
  'x'.repeat(201),
  '😀'.repeat(100),
  '-1',
  '0',
  '1.5',
  '1e3',
  'NaN',
  'null',
  'true',
  '٣',
  '9007199254740993',
  '2147483648',
  '99999999999999999999',
  '%00',
  "'; DROP TABLE runs; --",
] as const;
const STATUSES = ['Running', 'succeeded', 'FAILED', 'Skipped', 'Cancelled', 'TimedOut', 'Pending'] as const;
const REASONS = [
  'signature_mismatch',
  'signature_missing',
  'nonce_replayed',
  'flow_disabled',
  'body_too_large',
  'invalid_json',
  'rate_limited',
  'ip_not_allowed',
  'unknown_flow',
  'body_schema',
  'timestamp_missing',
  'timestamp_skew',
] as const;
const STEPS = [
  'first',
  'each',
  'each.0.see',
  'each.1.refuse',
  'call',
  'a',
  'B',
  'none',
  'EACH',
  'each.0',
  'é',
  'a\0',
  '../x',
] as const;

/** One of the newest, as a rule. */
export function recent(chance: Chance, values: readonly string[], other = UNKNOWN_ID): string {
  if (values.length === 0 || chance.once(25)) return other;
  return values[Math.max(0, values.length - 1 - chance.below(chance.once(5) ? values.length : 12))] ?? other;
}

/** An id as people give it: known or not, in upper case, cut. */
export function idLike(chance: Chance, id: string): string {
  if (chance.once(20)) return id.startsWith('~id') ? id.replace('~id', '~ID') : id.toUpperCase();
  if (chance.once(40)) return chance.pick(['no-id', `{${id}}`, '%20', `${id}0`, '%00', '%F0%9F%98%80']);
  return id;
}

type Parameters = readonly (readonly [name: string, value: (chance: Chance, known: Known) => string])[];

const flowIds = Object.values(FLOWS);
const flowId: Parameters[number] = ['flowId', (chance) => idLike(chance, chance.pick([...flowIds, UNKNOWN_ID]))];
const timeOf = (chance: Chance, times: readonly string[]) => {
  if (chance.once(15))
    return chance.pick([
      '0',
      '1',
      'yesterday',
      '2026-02-30T00:00:00Z',
      '1970-01-01T00:00:00+14:00',
      '999999999999999',
      '-1',
      '8640000000000001',
    ]);
  const time = recent(chance, times, '2026-01-01T00:00:00Z');
  return time.startsWith('~') && chance.once(3) ? time.replace(/~$/, '+1~') : time;
};
const span = (timesOf: (known: Known) => readonly string[]): Parameters => [
  ['since', (chance, known) => timeOf(chance, chance.once(2) ? known.pauses : timesOf(known))],
  ['until', (chance, known) => timeOf(chance, chance.once(2) ? known.pauses : timesOf(known))],
];
const paging: Parameters = [
  ['skip', (chance) => chance.pick(['0', '1', '3', '50', '2147483647', '2147483648', '-1', 'x'])],
  ['take', (chance) => chance.pick(['1', '2', '5', '50', '500', '501', '0'])],
  ['includeTotal', (chance) => chance.pick(['true', 'true', 'TRUE', '1', 'false', 'yes'])],
];
const searchKeys: Parameters[number] = [
  'searchKeys',
  (chance, known) =>
    `${chance.pick(['order', 'Kunde', 'event', 'id', 'Order', 'no name'])}:${chance.once(3) ? recent(chance, known.used) : chance.pick(TEXTS)}`,
];
const search = (idsOf: (known: Known) => readonly string[]): Parameters[number] => [
  'search',
  (chance, known) => {
    const id = recent(chance, idsOf(known), '~none~');
    return chance.pick([
      chance.pick(TEXTS),
      chance.pick(TEXTS),
      recent(chance, known.used),
      id,
      id.replace('~id', '~ID'),
      id.replace(/~$/, ':0:23~'),
      id.replace(/~$/, ':24:36~'),
      chance.pick(ODD),
    ]);
  },
];
const one = (name: string, ...values: readonly string[]): Parameters[number] => [name, (chance) => chance.pick(values)];

interface Question {
  readonly path: (chance: Chance, known: Known) => string;
  readonly parameters?: Parameters;
}

const text = (value: string) => encodeURIComponent(value);
const run = (chance: Chance, known: Known) => idLike(chance, recent(chance, known.runs));
const step = (chance: Chance, known: Known) =>
  chance.once(6)
    ? `runs/${run(chance, known)}/steps/${text(chance.pick(STEPS))}`
    : recent(chance, known.steps, 'runs/x/steps/x');
const flow = (chance: Chance) => idLike(chance, chance.pick([...flowIds, FLOWS.clay, FLOWS.clay, UNKNOWN_ID]));
const runs: Question = {
  path: () => 'runs',
  parameters: [
    flowId,
    one('status', ...STATUSES),
    search(({ runs: ids, deliveries }) => [...ids.slice(-20), ...deliveries.slice(-20)]),
    one('waiting', 'signal', 'delay', 'retry', 'poll', 'run', 'host', 'slot', 'Signal', 'none'),
    searchKeys,
    ...span(({ starts }) => starts),
    ...paging,
  ],
};
const deliveries: Question = {
  path: () => 'webhooks/recent',
  parameters: [
    flowId,
    one('reason', ...REASONS),
    one('rejectedOnly', 'true', 'false', '2'),
    one('acceptedOnly', 'true', 'false'),
    one('heldOnly', 'true', 'false'),
    search(({ runs: ids, deliveries: others }) => [...ids.slice(-20), ...others.slice(-20)]),
    searchKeys,
    ...span(({ arrivals }) => arrivals),
    ...paging,
  ],
};

const QUESTIONS: readonly Question[] = [
  runs,
  runs,
  runs,
  runs,
  deliveries,
  deliveries,
  deliveries,
  deliveries,
  { path: () => 'runs/active', parameters: span(({ starts }) => starts) },
  ...['', '', '/trigger', '/control', '/lineage', '/outline'].map((part) => ({
    path: (chance: Chance, known: Known) => `runs/${run(chance, known)}${part}`,
  })),
  {
    path: (chance, known) => `runs/${run(chance, known)}/events`,
    parameters: [one('take', '500', '0', 'x'), ...span(({ starts }) => starts)],
  },
  { path: (chance, known) => `runs/${run(chance, known)}/steps`, parameters: paging },
  { path: step },
  {
    path: (chance, known) => `${step(chance, known)}/${chance.pick(['input', 'output', 'output'])}`,
    parameters: [one('attempt', '1', '2', '0', '99', 'x')],
  },
  {
    path: (chance, known) => `runs/${recent(chance, known.loops)}/iterations${chance.once(9) ? '' : '?loop=each'}`,
    parameters: [one('status', ...STATUSES), ...paging.slice(0, 2)],
  },
  { path: () => 'runs/stats' },
  {
    path: () => 'runs/timeseries',
    parameters: [
      one('bucket', 'hour', 'day', 'Hour', 'week'),
      one('hours', '1', '24', '720', '0'),
      one('days', '1', '7', '0', '31'),
      flowId,
      ...span(({ pauses }) => pauses),
    ],
  },
  {
    path: () => 'webhooks/timeseries',
    parameters: [one('bucket', 'hour', 'day'), one('hours', '1', '24', '721'), flowId, ...span(({ pauses }) => pauses)],
  },
  { path: () => 'webhooks/stats', parameters: [one('hours', '1', '24', '720', '0', '721', 'x')] },
  { path: () => 'webhooks/readiness', parameters: [flowId, one('hours', '1', '24', '720')] },
  ...['', '', '', '/body', '/evidence'].map((part) => ({
    path: (chance: Chance, known: Known) => `webhooks/${idLike(chance, recent(chance, known.deliveries))}${part}`,
  })),
  { path: () => 'schedules', parameters: [...span(({ pauses }) => pauses), ...paging] },
  { path: () => 'flows', parameters: [...span(({ pauses }) => pauses), ...paging] },
  ...['', '', '/mermaid', '/drain', '/drain'].map((part) => ({
    path: (chance: Chance) => `flows/${flow(chance)}${part}`,
  })),
  { path: (chance) => `flows/${flow(chance)}/revisions`, parameters: [...span(({ pauses }) => pauses), ...paging] },
  {
    path: (chance) => `flows/${flow(chance)}/revisions/${chance.pick(['1', '2', '3', '0', '999', '2147483648', 'x'])}`,
  },
  {
    path: (chance) =>
      `flows/${flow(chance)}/revisions/${chance.pick(['1', '2', '3'])}/diff/${chance.pick(['1', '2', '4'])}`,
  },
  {
    path: () => 'activity',
    parameters: [
      ['id', (chance, known) => recent(chance, known.interventions)],
      one('actor', 'anyone', 'Anyone', 'é'),
      one('action', 'cancelRun', 'deployFlow', 'rerunRuns', 'cancelrun', 'none'),
      [
        'target',
        (chance, known) =>
          chance.pick([
            recent(chance, known.runs),
            chance.pick(flowIds),
            `flow-${FLOWS.clocks}-yearly`,
            recent(chance, known.deliveries),
          ]),
      ],
      ...span(({ pauses }) => pauses),
      ...paging,
    ],
  },
  { path: () => 'keys', parameters: [flowId] },
  { path: () => 'attention' },
  { path: () => 'hosts' },
  { path: () => 'alerts' },
  { path: () => 'nothing/here' },
];

/** Any question of the API, with some of its parameters, now and then odd ones. */
function questionOf(chance: Chance, known: Known): Ask {
  const { path, parameters = [] } = chance.pick(QUESTIONS);
  const given = parameters
    .filter(() => chance.once(4))
    .map(([name, value]) => {
      return [name, chance.once(40) ? chance.pick(ODD) : value(chance, known)] as const;
    });
  if (chance.once(60)) given.push([chance.pick(['Skip', 'limit', 'sort', 'cursor', '', 'flowid']), '1']);
  if (chance.once(80) && given[0] !== undefined) given.push(given[0]);
  const query = given
    .map(([name, value]) => `${text(name)}=${text(value).replaceAll('%3A', ':').replaceAll('%2B', '+')}`)
    .join('&');
  const asked = path(chance, known);
  return {
    method: 'GET',
    path: `/flows/api/${asked}${query === '' ? '' : `${asked.includes('?') ? '&' : '?'}${query}`}`,
  };
}

/** Asks both, and learns of the steps in the answer. */
export async function askAnything(pair: Pair, chance: Chance, known: Known): Promise<void> {
  const { json } = await pair.ask(questionOf(chance, known));
  const { id, flowId, steps } = (json ?? {}) as { id?: string; flowId?: string; steps?: { stepKey: string }[] };
  if (id === undefined || !Array.isArray(steps)) return;
  for (const { stepKey } of steps) known.steps.push(`runs/${id}/steps/${stepKey}`);
  if (flowId === FLOWS.loops) known.loops.push(id);
}
