import { Agent, type IncomingHttpHeaders, request as send } from 'node:http';
import { eventually } from '../eventually.ts';
import { filledIn, jsonOf, labelled, logOf, type Side, TIME, UUID } from './same-answers-labels.ts';
import type { Service } from './service.ts';

/**
 * One request for both services. Labels stand for values that each service made: `~id3~` is the third id in their
 * answers, `~ID3~` the same in upper case, `~id3:0:13~` a part of it, `~time2~` a time, `~time2+1~` a millisecond
 * later, and `~text1~` any other text.
 */
export interface Ask {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

/** The answer of both, with labels for values that differ between any two services. */
export interface Answer {
  readonly status: number;
  readonly text: string;
  /** The parsed text; undefined if it is not JSON. */
  readonly json: unknown;
}

/** Headers of a JSON body. */
export const JSON_TYPE = { 'content-type': 'application/json' };

export function post(path: string, body: string | Buffer = '', headers: Ask['headers'] = {}): Ask {
  return { method: 'POST', path: `/flows/api/${path}`, body, headers };
}

export function postJson(path: string, value: unknown, headers: Ask['headers'] = {}): Ask {
  return post(path, JSON.stringify(value), { ...JSON_TYPE, ...headers });
}

/** One service on each store. Both get the same requests; each member throws if their answers differ. */
export interface Pair {
  /** Sends a command to both once. */
  tell(ask: Ask): Promise<Answer>;
  /** Sends a command to both several times at once: the answers must be the same in some order. */
  race(ask: Ask, times: number): Promise<void>;
  /** Asks both until the answers agree, because steps may still run. */
  ask(ask: Ask): Promise<Answer>;
  /** Waits until both answers fulfil the condition. */
  until(ask: Ask, isThere: (json: unknown) => boolean): Promise<void>;
  /** Compares the log lines since the start, in any order. */
  compareLogs(): void;
  /** A label for the value at a place in the last answers. */
  keep(kind: 'time' | 'text', place: (json: unknown) => unknown): string | undefined;
  /** Replaces the services; the stores stay the same. */
  replace(services: readonly Service[]): void;
  /** The requests since it was last emptied. */
  readonly story: string[];
}

interface RawAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

export function openPair(services: readonly Service[]): Pair {
  const sides: readonly Side[] = services.map((service) => ({ service, values: new Map(), labels: new Map() }));
  const agent = new Agent({ keepAlive: true });
  const story: string[] = [];
  let kept = 0;
  let last: readonly RawAnswer[] = [];

  const askBoth = async (ask: Ask) => {
    last = await Promise.all(sides.map((side) => exchange(side, ask, agent)));
    return last;
  };
  /** Asks until the answers have no problem; throws the problem if it remains. */
  const askUntil = async (ask: Ask, problemOf: (answers: readonly RawAnswer[]) => string | undefined) => {
    await eventually(
      async () => problemOf(await askBoth(ask)),
      (problem) => problem === undefined,
      { seconds: 20, because: 'steps, releases and their figures take so long on a busy machine' },
    );
  };
  const answerOf = (): Answer => {
    const [{ status, text } = { status: 0, text: '' }] = last;
    const shown = labelled(text, sides[0] as Side);
    return { status, text: shown, json: jsonOf(shown) };
  };

  return {
    story,
    async tell(ask) {
      story.push(toldOf(ask));
      const problem = learnSame(sides, await askBoth(ask));
      if (problem !== undefined) throw new Error(problem);
      const answer = answerOf();
      story.push(`  ${answer.status} ${answer.text.slice(0, MAX_SHOWN)}`);
      return answer;
    },
    async race(ask, times) {
      story.push(`${times} times at once: ${toldOf(ask)}`);
      const answers = await Promise.all(
        sides.map(async (side) => {
          const copies = Array.from({ length: times }, () => exchange(side, ask, agent));
          const shown = (await Promise.all(copies)).map(({ status, text }) => `${status} ${text.replace(UUID, 'id')}`);
          return shown.sort().join('\n');
        }),
      );
      const problem = differenceOf(answers);
      if (problem !== undefined) throw new Error(problem);
    },
    async ask(ask) {
      story.push(toldOf(ask));
      await askUntil(ask, (answers) => learnSame(sides, answers));
      return answerOf();
    },
    until: (ask, isThere) =>
      askUntil(ask, (answers) => {
        const wrong = answers.filter(({ text }) => !isThere(jsonOf(text)));
        return wrong.length === 0 ? undefined : `It did not come to rest:\n${wrong.map(({ text }) => text).join('\n')}`;
      }),
    compareLogs() {
      const problem = differenceOf(sides.map((side) => logOf(side).join('\n')));
      if (problem !== undefined) throw new Error(`The logs, sorted: ${problem}`);
    },
    keep(kind, place) {
      const values = last.map(({ text }) => place(jsonOf(text)));
      if (!values.every((value) => typeof value === 'string')) return undefined;
      kept += 1;
      const label = `~${kind}${kept}~`;
      for (const [n, value] of values.entries()) sides[n]?.values.set(label, value);
      return label;
    },
    replace(others) {
      for (const [n, side] of sides.entries()) side.service = others[n] as Service;
    },
  };
}

/** Headers that clients may act on. */
const HEADERS = [
  'content-type',
  'retry-after',
  'www-authenticate',
  'allow',
  'location',
  'cache-control',
  'x-hook-secret',
];

/** Gives ids in the answers the same labels. If the answers differ, it learns nothing and returns the problem. */
function learnSame(sides: readonly Side[], answers: readonly RawAnswer[]): string | undefined {
  const drafts = sides.map(() => new Map<string, string>());
  const shown = answers.map(({ status, headers, text }, n) => {
    const sent = HEADERS.flatMap((name) => (headers[name] === undefined ? [] : [`${name}: ${headers[name]}`]));
    return labelled(text, sides[n] as Side, drafts[n]).replace(/^/, `${status}\n${sent.join('\n')}\n\n`);
  });
  const problem = differenceOf(shown) ?? differenceOfTimes(answers);
  if (problem !== undefined) return problem;
  for (const [n, draft] of drafts.entries()) {
    for (const [id, label] of draft) {
      sides[n]?.labels.set(id, label);
      sides[n]?.values.set(label, id);
    }
  }
  return undefined;
}

const MAX_SHOWN = 500;

function differenceOf([lite = '', post = '']: readonly string[]): string | undefined {
  if (lite === post) return undefined;
  let at = 0;
  while (at < lite.length && lite[at] === post[at]) at += 1;
  const from = Math.max(0, at - MAX_SHOWN);
  return `SQLite: …${lite.slice(from, at + MAX_SHOWN)}\n\nPostgreSQL: …${post.slice(from, at + MAX_SHOWN)}`;
}

/** Both act at about the same time; a time in the wrong zone, hour or day is further off. */
const SAME_TIME_MS = 10 * 60_000;

function differenceOfTimes(answers: readonly RawAnswer[]): string | undefined {
  const [lite = [], post = []] = answers.map(({ text }) => text.match(TIME) ?? []);
  if (lite.length !== post.length) return undefined;
  const at = lite.findIndex((time, n) => !(Math.abs(Date.parse(time) - Date.parse(post[n] ?? '')) < SAME_TIME_MS));
  return at === -1 ? undefined : `Time ${at} of the answer: SQLite ${lite[at]}, PostgreSQL ${post[at]}`;
}

function toldOf({ method, path, headers = {}, body = '' }: Ask): string {
  return `${method} ${path} ${JSON.stringify(headers)} ${body.toString('utf8').slice(0, MAX_SHOWN)}`;
}

function exchange(side: Side, { method, path, headers = {}, body = '' }: Ask, agent: Agent): Promise<RawAnswer> {
  const { hostname, port } = new URL(side.service.url);
  const sent = typeof body === 'string' ? Buffer.from(filledIn(body, side)) : body;
  const own = Object.entries(headers).map(([name, value]) => [name, filledIn(value, side)]);
  // The same headers for both, because they are stored with deliveries.
  const all = { host: 'localhost', 'content-length': sent.byteLength, ...Object.fromEntries(own) };
  return new Promise((resolve, reject) => {
    const outgoing = send({ hostname, port, agent, method, path: filledIn(path, side), headers: all }, (response) => {
      const parts: Buffer[] = [];
      response.on('data', (part: Buffer) => parts.push(part));
      response.on('error', reject);
      response.on('end', () => {
        const isBytes = response.headers['content-type'] === 'application/octet-stream';
        const text = Buffer.concat(parts).toString(isBytes ? 'latin1' : 'utf8');
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text });
      });
    });
    outgoing.on('error', reject);
    outgoing.end(sent);
  });
}
