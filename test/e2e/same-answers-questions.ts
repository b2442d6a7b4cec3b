import type { Chance } from '../chance.ts';
import { FLOWS, UNKNOWN_ID } from './same-answers-flows.ts';
import type { Ask, Pair } from './same-answers-pair.ts';
import { getJson } from './service.ts';

/** What stories know of both services: labels of ids that they made, and times between two stories. */
export interface Known {
  readonly runs: string[];
  readonly deliveries: string[];
  readonly interventions: string[];
  /** Runs that have a loop. */
  readonly loops: string[];
  /** Paths of steps in earlier answers. */
  readonly steps: string[];
  /** Labels of the start times of runs that started alone. */
  readonly starts: string[];
  readonly arrivals: string[];
  /** ISO 8601; nothing happened in that millisecond. */
  readonly pauses: string[];
  /** Minutes since the epoch whose figures differ between the services; no pause lies in them. */
  readonly mixedMinutes: Set<number>;
  /** Nonces, idempotency keys and search keys in use. */
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

/** Usually one of the newest. */
export function recent(chance: Chance, values: readonly string[], other = UNKNOWN_ID): string {
  if (values.length === 0 || chance.once(25)) return other;
  return values[Math.max(0, values.length - 1 - chance.below(chance.once(5) ? values.length : 12))] ?? other;
}

/** An id as people type it: known or not, in upper case or cut. */
export function idLike(chance: Chance, id: string): string {
  if (chance.once(20)) return id.startsWith('~id') ? id.replace('~id', '~ID') : id.toUpperCase();
  if (chance.once(40)) return chance.pick(['no-id', `{${id}}`, '%20', `${id}0`, '%00', '%F0%9F%98%80']);
  return id;
}

/** A parameter of an operation in the OpenAPI document. */
interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly schema: { readonly type?: string; readonly format?: string; readonly enum?: readonly string[] };
}

interface Question {
  readonly path: string;
  readonly parameters: readonly Parameter[];
}

/** Not asked: data of one process or of the moment, and data that no story changes. */
const OWN =
  /^\/(health|metrics)|\/webhook\/|\/(stream|verify|replicas|books|paths|preview|failures|handlers|schemes|manifest-schema)$/;

/** Every question of the API; those with the most parameters come more often. */
export async function readQuestions({ url }: { readonly url: string }): Promise<readonly Question[]> {
  const document = await getJson<{ paths: Record<string, { get?: Partial<Question> }> }>(
    `${url}/flows/api/openapi.json`,
  );
  return Object.entries(document.paths).flatMap(([path, { get }]): Question[] => {
    if (get === undefined || OWN.test(path)) return [];
    const { parameters = [] } = get;
    const isList = ['search', 'includeTotal'].every((each) => parameters.some(({ name }) => name === each));
    return Array(isList ? 10 : path.includes('{') ? 2 : 1).fill({ path, parameters });
  });
}

const text = (value: string) => encodeURIComponent(value);
const flowIds = Object.values(FLOWS);

function timeOf(chance: Chance, times: readonly string[]): string {
  if (chance.once(15))
    return chance.pick([
      ...['0', '1', 'yesterday', '2026-02-30T00:00:00Z', '1970-01-01T00:00:00+14:00', '999999999999999', '-1'],
      '8640000000000001',
    ]);
  const time = recent(chance, times, '2026-01-01T00:00:00Z');
  return time.startsWith('~') && chance.once(3) ? time.replace(/~$/, '+1~') : time;
}

/** Times of the things that the path lists; all else is counted by the hour. */
function timesOf(path: string, { starts, arrivals, pauses }: Known): readonly string[] {
  if (/\/runs(\/active|\/\{id\}\/events)?$/.test(path)) return starts;
  return path.endsWith('/webhooks/recent') ? arrivals : pauses;
}

/** Values by parameter name, where the schema does not say enough. */
const VALUES: Readonly<Record<string, (chance: Chance, known: Known, path: string) => string>> = {
  id(chance, known, path) {
    if (path.endsWith('/activity')) return recent(chance, known.interventions);
    if (path.includes('/flows/{id}'))
      return idLike(chance, chance.pick([...flowIds, FLOWS.clay, FLOWS.clay, UNKNOWN_ID]));
    return idLike(chance, recent(chance, path.endsWith('/iterations') ? known.loops : known.runs));
  },
  deliveryId: (chance, known) => idLike(chance, recent(chance, known.deliveries)),
  flowId: (chance) => idLike(chance, chance.pick([...flowIds, UNKNOWN_ID])),
  key: (chance) => text(chance.pick(STEPS)),
  step: (chance) => chance.pick(STEPS),
  loop: () => 'each',
  // Not `minute`: the services need not agree by the minute.
  bucket: (chance) => chance.pick(['hour', 'day', 'Hour', 'week']),
  actor: (chance) => chance.pick(['anyone', 'Anyone', 'é']),
  action: (chance) => chance.pick(['cancelRun', 'deployFlow', 'rerunRuns', 'cancelrun', 'none']),
  target: (chance, known) =>
    chance.pick([
      ...[recent(chance, known.runs), recent(chance, known.deliveries)],
      ...[chance.pick(flowIds), `flow-${FLOWS.clocks}-yearly`],
    ]),
  search(chance, known) {
    const id = recent(chance, [...known.runs.slice(-20), ...known.deliveries.slice(-20)], '~none~');
    return chance.pick([
      ...[chance.pick(TEXTS), chance.pick(TEXTS), recent(chance, known.used), chance.pick(ODD)],
      ...[id, id.replace('~id', '~ID'), id.replace(/~$/, ':0:23~'), id.replace(/~$/, ':24:36~')],
    ]);
  },
  searchKeys: (chance, known) =>
    `${chance.pick(['order', 'Kunde', 'event', 'id', 'Order', 'no name'])}:${chance.once(3) ? recent(chance, known.used) : chance.pick(TEXTS)}`,
};

function valueFor({ name, schema }: Parameter, path: string, about: { chance: Chance; known: Known }): string {
  const { chance, known } = about;
  const own = VALUES[name];
  if (own !== undefined) return own(chance, known, path);
  if (schema.enum !== undefined) {
    const value = chance.pick(schema.enum);
    return chance.pick([value, value, value.toUpperCase(), 'none']);
  }
  if (schema.format === 'date-time') return timeOf(chance, chance.once(2) ? known.pauses : timesOf(path, known));
  if (schema.type === 'boolean') return chance.pick(['true', 'true', 'TRUE', '1', 'false', 'yes']);
  if (schema.type === 'integer')
    return chance.once(8) ? chance.pick(['0', '-1', '2147483648', 'x']) : chance.pick(['1', '2', '3', '24', '50']);
  return text(chance.pick(TEXTS));
}

/** A random question with some of its parameters, sometimes odd ones. */
function questionOf(questions: readonly Question[], chance: Chance, known: Known): Ask {
  const { path, parameters } = chance.pick(questions);
  const about = { chance, known };
  const given = parameters
    .filter(
      ({ in: place, name }) =>
        place === 'query' && name !== 'minutes' && (name === 'loop' || chance.once(Math.max(4, parameters.length / 2))),
    )
    .map((parameter): [string, string] => [
      parameter.name,
      chance.once(40) ? chance.pick(ODD) : valueFor(parameter, path, about),
    ]);
  if (chance.once(60)) given.push([chance.pick(['Skip', 'limit', 'sort', 'cursor', '', 'flowid']), '1']);
  if (chance.once(80) && given[0] !== undefined) given.push(given[0]);
  const query = given
    .map(([name, value]) => `${text(name)}=${text(value).replaceAll('%3A', ':').replaceAll('%2B', '+')}`)
    .join('&');
  const step = chance.once(6) ? undefined : known.steps.at(-1 - chance.below(Math.max(1, known.steps.length)));
  const asked = parameters
    .filter((parameter) => parameter.in === 'path')
    .reduce(
      (filled, parameter) => filled.replace(`{${parameter.name}}`, () => valueFor(parameter, path, about)),
      step === undefined ? path : path.replace('runs/{id}/steps/{key}', step),
    );
  return { method: 'GET', path: query === '' ? asked : `${asked}?${query}` };
}

/** Asks both, and remembers the steps in the answer. */
export async function askAnything(
  pair: Pair,
  { questions, chance, known }: { questions: readonly Question[]; chance: Chance; known: Known },
): Promise<void> {
  const { json } = await pair.ask(questionOf(questions, chance, known));
  const { id, flowId, steps } = (json ?? {}) as { id?: string; flowId?: string; steps?: { stepKey: string }[] };
  if (id === undefined || !Array.isArray(steps)) return;
  for (const { stepKey } of steps) known.steps.push(`runs/${id}/steps/${stepKey}`);
  if (flowId === FLOWS.loops) known.loops.push(id);
}
