import { expect, inject, it, onTestFinished } from 'vitest';
import { type Chance, chanceOf, SEED } from '../chance.ts';
import { newSchema } from '../postgres/schemas.ts';
import { COMMANDS, cancelAll } from './same-answers-commands.ts';
import { MAX_BODY_BYTES, settle } from './same-answers-deliveries.ts';
import { manifests, SECRETS, startReceiver } from './same-answers-flows.ts';
import { openPair, type Pair } from './same-answers-pair.ts';
import { askAnything, type Known, readQuestions } from './same-answers-questions.ts';
import { createWorkspace, type Service, startService } from './service.ts';

const STORIES = Number(process.env.TEST_SAME_STORIES ?? 300);

it('answers every request the same on SQLite and on PostgreSQL, through random stories', async () => {
  const { start, restart, others } = await prepare();
  const services = await start();
  const pair = openPair(services);
  const questions = await readQuestions(services[0]);
  // One after the other: deploys within one millisecond have no order.
  for (const manifest of others) {
    await nextMillisecond();
    const path = `/flows/api/flows/${(manifest as { id: string }).id}`;
    const { status, text } = await pair.tell({ method: 'PUT', path, body: JSON.stringify(manifest) });
    expect(status, text).toBe(200);
  }
  const chance = chanceOf('stories');
  const known: Known = {
    runs: [],
    deliveries: [],
    interventions: [],
    loops: [],
    steps: [],
    starts: [],
    arrivals: [],
    pauses: [],
    mixedMinutes: new Set(),
    used: [],
  };
  let number = 0;
  try {
    for (; number < STORIES; number += 1) {
      pair.story.length = 0;
      if (number % 100 === 99) await cancelAll(pair);
      if (number % 400 === 399) await restart(pair, chance.pick(['SIGTERM', 'SIGKILL']));
      await tell(pair, { questions, chance, known });
    }
    await look(pair);
  } catch (error) {
    throw new Error(`story ${number} of TEST_SEED=${SEED}:\n${pair.story.join('\n')}\n${(error as Error).message}`, {
      cause: error,
    });
  }
});

/** Returns functions that start both services on their stores. */
async function prepare(): Promise<{
  start(): Promise<[Service, Service]>;
  restart(pair: Pair, signal: NodeJS.Signals): Promise<void>;
  others: readonly object[];
}> {
  const workspace = await createWorkspace();
  const receiver = await startReceiver();
  const running: Service[] = [];
  const schema = newSchema();
  onTestFinished(async () => {
    await Promise.all(running.map((service) => service.stop('SIGKILL')));
    await receiver.close();
  });
  const [first = {}, ...others] = manifests(receiver.url);
  await workspace.writeManifest('hooks.json', first);
  const env = {
    SLUICE_ENFORCEMENT_MODE: 'Enforce',
    SLUICE_MAX_BODY_BYTES: String(MAX_BODY_BYTES),
    SLUICE_FORWARDED_HEADER_DEPTH: '0',
    SLUICE_TRUSTED_PROXIES: '127.0.0.1',
    SLUICE_EGRESS_ALLOW: '127.0.0.1',
    SLUICE_CIRCUIT_FAILURES: '0',
    SLUICE_STORE_KEY: 'env:SECRET_OF_CALLS',
    SLUICE_LOG_LEVEL: 'info',
    SLUICE_REPLICA_NAME: 'one',
    SLUICE_DRAIN_SECONDS: '0',
    ...SECRETS,
  };
  const restart = async (pair: Pair, signal: NodeJS.Signals) => {
    await look(pair);
    pair.story.push(`both services stop by ${signal} and start again`);
    await Promise.all(running.map((service) => service.stop(signal)));
    pair.replace(await start());
  };
  const start = async (): Promise<[Service, Service]> => {
    const services = await Promise.all([
      startService(workspace, env),
      startService(workspace, { ...env, SLUICE_DATABASE_URL: inject('postgresUrl'), SLUICE_DATABASE_SCHEMA: schema }),
    ]);
    running.splice(0, running.length, ...services);
    return services;
  };
  return { start, restart, others };
}

/** One command, its effects, and some questions. */
async function tell(pair: Pair, about: Parameters<typeof askAnything>[1]): Promise<void> {
  const { chance, known } = about;
  await passHour();
  const begunAt = await nextMillisecond();
  // Wait again: at the pause's own millisecond, one service might already act and the other not yet.
  await nextMillisecond();
  known.pauses.push(new Date(begunAt).toISOString());
  await commandOf(chance)(pair, chance, known);
  await settle(pair);
  forgetMixedMinutes(known, minuteOf(begunAt), minuteOf(Date.now()));
  await learn(pair, 'runs?take=10', known.runs, { place: 'startedAt', times: known.starts });
  await learn(pair, 'webhooks/recent?take=3', known.deliveries, { place: 'receivedAt', times: known.arrivals });
  if (chance.once(4)) await learn(pair, 'activity?take=1', known.interventions);
  for (let question = chance.below(6); question > 0; question -= 1) await askAnything(pair, about);
}

/** Learns the ids that the command made; of a single one also its time (several may share a millisecond). */
async function learn(
  pair: Pair,
  list: string,
  ids: string[],
  when?: { readonly place: string; readonly times: string[] },
): Promise<void> {
  const { json } = await pair.ask({ method: 'GET', path: `/flows/api/${list}` });
  const found = (json as { id: string }[]).map(({ id }) => id).filter((id) => !ids.includes(id));
  ids.push(...found.toReversed());
  if (when === undefined || found.length !== 1) return;
  const time = pair.keep('time', (answer) => (answer as Record<string, unknown>[])[0]?.[when.place]);
  if (time !== undefined) when.times.push(time);
}

function commandOf(chance: Chance) {
  const total = COMMANDS.reduce((sum, [share]) => sum + share, 0);
  let place = (chance.below(1_000_000) / 1_000_000) * total;
  for (const [share, command] of COMMANDS) {
    place -= share;
    if (place < 0) return command;
  }
  throw new Error('the shares have a gap');
}

/** Compares metrics and logs. */
async function look(pair: Pair): Promise<void> {
  await pair.ask({ method: 'GET', path: '/metrics' });
  pair.compareLogs();
}

// The services and PostgreSQL are processes with the machine's clock: tests cannot set their time.
const minuteOf = (at: number) => Math.floor(at / 60_000);
const HOUR_MS = 3_600_000;
const LONGEST_STORY_MS = 60_000;

/**
 * Figures are counted by the minute. If a story spans two minutes, the services may count its actions in different
 * ones, so no question names a time in these minutes.
 */
function forgetMixedMinutes({ pauses, mixedMinutes }: Known, first: number, last: number): void {
  for (let minute = first; first < last && minute <= last; minute += 1) mixedMinutes.add(minute);
  const kept = pauses.filter((pause) => !mixedMinutes.has(minuteOf(Date.parse(pause))));
  pauses.splice(0, pauses.length, ...kept);
}

/** Charts count by the hour: no story begins so late that it might end in the next hour. */
async function passHour(): Promise<void> {
  while (Date.now() % HOUR_MS > HOUR_MS - LONGEST_STORY_MS) await new Promise((later) => setTimeout(later, 100));
}

/** After it, the last story is over by every clock. */
async function nextMillisecond(): Promise<number> {
  const now = Date.now();
  while (Date.now() === now) await new Promise((later) => setImmediate(later));
  return Date.now();
}
