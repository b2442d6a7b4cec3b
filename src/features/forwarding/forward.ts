import { hostname, userInfo } from 'node:os';
import { setTimeout as wait } from 'node:timers/promises';
import { CommandError } from '../../commands/context.ts';
import { NoAnswerError, RefusedError, type ServiceClient } from '../../commands/service-client.ts';
import { isoTimeOf } from '../../commands/time.ts';
import { isObject } from '../../manifest/json-text.ts';
import { maskRefusedUrl, maskUrl } from '../../manifest/mask.ts';
import { HOUR_MS } from '../../model/clock.ts';
import { printable } from '../../model/text.ts';
import { print, printError } from '../../telemetry/terminal.ts';
import { OF_THE_CONNECTION, post } from './post.ts';

export interface Forwarding {
  /** URL to send deliveries to. */
  readonly target: string;
  /** The consumer's name at the service; contains user and machine by default. */
  readonly as?: string | undefined;
  /** The start of a new consumer, in milliseconds since the Unix epoch. */
  readonly since?: number | undefined;
  readonly subject: { readonly flowId?: string; readonly triggerKey?: string };
  /** Describes the forwarded deliveries. */
  readonly told: string;
  readonly count: number;
  readonly isJson: boolean;
}

interface ForwardedDelivery {
  readonly cursor: string;
  readonly deliveryId: string;
  readonly runId: string;
  readonly flowId: string;
  readonly flowName: string;
  readonly triggerKey: string;
  readonly receivedAt: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

interface Page {
  readonly deliveries: readonly ForwardedDelivery[];
  readonly upTo: string;
  readonly gone: { readonly since: string; readonly until: string; readonly atMost: number } | null;
}

const IDLE_MS = 500;
/** Keeps the service from forgetting a consumer that has nothing to do. */
const TOUCH_MS = HOUR_MS;

/** Forwards deliveries in order until a signal comes; acknowledges each one after the target has answered. */
export async function forward(client: ServiceClient, forwarding: Forwarding): Promise<void> {
  const { target, told } = forwarding;
  if (!/^https?:\/\//i.test(target) || !URL.canParse(target)) {
    throw new CommandError(
      `--forward "${maskRefusedUrl(target)}": expected an absolute URL such as http://localhost:8080/hook`,
    );
  }
  const name = forwarding.as ?? defaultName();
  const stop = stopSignal();
  const consumer = createConsumer(client, name, stop);
  try {
    const { cursor, at } = await consumer.open(forwarding);
    tell(`Forwarding ${told} to ${maskUrl(target)} as ${name}, from ${at} on; press Ctrl-C to stop`);
    await forwardFrom(cursor, consumer, { ...forwarding, stop });
  } catch (error) {
    if (!(error instanceof Stopped)) throw error;
  }
}

/** A signal ended a wait. */
class Stopped extends Error {}

/** Aborts at the first signal; a second one ends the process as usual. */
function stopSignal(): AbortSignal {
  const stop = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => stop.abort());
  return stop.signal;
}

async function forwardFrom(
  begin: string,
  consumer: ReturnType<typeof createConsumer>,
  { target, count, isJson, stop }: Forwarding & { readonly stop: AbortSignal },
): Promise<void> {
  let noted = begin;
  let notedAt = Date.now();
  let left = count;
  let isGoneTold = false;
  const note = async (cursor: string) => {
    await consumer.advance(noted, cursor);
    noted = cursor;
    notedAt = Date.now();
  };
  while (!stop.aborted) {
    const { deliveries, upTo, gone } = await consumer.read();
    if (gone !== null && !isGoneTold) {
      tell(`up to ${gone.atMost} deliveries between ${gone.since} and ${gone.until} are gone: their runs were deleted`);
      isGoneTold = true;
    }
    for (const delivery of deliveries) {
      const sent = await send(delivery, target, stop);
      await note(delivery.cursor);
      print(isJson ? `${JSON.stringify(viewOf(delivery, sent))}\n` : `${printable(lineOf(delivery, sent))}\n`);
      left -= 1;
      if (left === 0 || stop.aborted) return;
    }
    if (upTo !== noted || Date.now() - notedAt > TOUCH_MS) await note(upTo);
    else if (deliveries.length === 0) await pause(IDLE_MS, stop);
  }
}

/** Repeats a request while the service is unavailable, even at first. Rejects with `Stopped` if a signal comes. */
export async function untilAnswered<Result>(ask: () => Promise<Result>, stop: AbortSignal): Promise<Result> {
  for (let isTold = false; ; isTold = true) {
    try {
      const result = await ask();
      if (isTold) tell('connected again');
      return result;
    } catch (error) {
      if (!(error instanceof NoAnswerError) && !(error instanceof RefusedError && error.isAway)) throw error;
      if (!isTold) tell(`${error.message}; trying again`);
    }
    await pause(RETRY_MS.first, stop);
  }
}

const CONSUMER = { cursor: '', at: '' };
const PAGE = { deliveries: [{ cursor: '', deliveryId: '', receivedAt: '', headers: {}, body: '' }], upTo: '' };

/** The consumer at the service; repeats requests while the service is unavailable. */
function createConsumer(client: ServiceClient, name: string, stop: AbortSignal) {
  const path = `/flows/api/webhooks/consumers/${encodeURIComponent(name)}`;
  const ask = async (request: Parameters<ServiceClient['ask']>[0]): Promise<unknown> =>
    (await untilAnswered(() => client.ask(request), stop)).body;
  return {
    async open({ since, subject }: Forwarding): Promise<{ cursor: string; at: string }> {
      const body = JSON.stringify({ since: isoTimeOf(since), ...subject });
      return (await ask({ method: 'PUT', path, body, like: CONSUMER })) as { cursor: string; at: string };
    },
    async read(): Promise<Page> {
      return (await ask({ method: 'GET', path: `${path}/deliveries`, like: PAGE })) as Page;
    },
    async advance(from: string, to: string): Promise<void> {
      try {
        await ask({ method: 'POST', path: `${path}/advance?${new URLSearchParams({ from, to })}` });
      } catch (error) {
        if (error instanceof Stopped) throw new CommandError('The last delivery could not be noted: it is sent again');
        if (!(error instanceof RefusedError) || !isObject(error.answer) || error.answer.reason !== 'cursor_moved')
          throw error;
        // The service may have recorded it before, and its answer got lost.
        const { cursor } = (await ask({ method: 'GET', path, like: CONSUMER })) as { cursor: string };
        if (to.endsWith(cursor)) return;
        throw new CommandError(`Another program forwards as ${name}; give each its own name with --as`);
      }
    },
  };
}

const RETRY_MS = { first: 1000, most: 30_000 };
const ANSWER_MS = 60_000;
/** Answers of a proxy whose program is unavailable, and requests to wait. */
const AWAY: ReadonlySet<number> = new Set([429, 502, 503, 504]);

interface Sent {
  readonly status: number;
  readonly durationMs: number;
  readonly tries: number;
}

/** Sends a delivery until the target answers. Rejects with `Stopped` if a signal ends the wait between two attempts. */
async function send(delivery: ForwardedDelivery, target: string, stop: AbortSignal): Promise<Sent> {
  const request = {
    url: target,
    headers: { ...sentHeaders(delivery.headers), 'idempotency-key': delivery.deliveryId },
    body: Buffer.from(delivery.body, 'base64'),
  };
  for (let tries = 1, waitMs = RETRY_MS.first; ; tries += 1, waitMs = Math.min(waitMs * 2, RETRY_MS.most)) {
    const startedAt = performance.now();
    const answer = await post({ ...request, signal: AbortSignal.timeout(ANSWER_MS) }).catch((error: unknown) =>
      error instanceof Error ? error : new Error(String(error)),
    );
    const durationMs = Math.round(performance.now() - startedAt);
    if (!(answer instanceof Error) && !AWAY.has(answer.status)) return { status: answer.status, durationMs, tries };
    if (tries === 1) {
      const why = answer instanceof Error ? answer.message || (answer as NodeJS.ErrnoException).code : answer.status;
      tell(`POST ${maskUrl(target)}: ${why}; trying again until it answers`);
    }
    await pause(waitMs, stop);
  }
}

/** Stored headers, including redacted ones, without values that a header cannot hold, such as shortened ones. */
function sentHeaders(stored: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(stored).filter(([name, value]) => !OF_THE_CONNECTION.has(name) && !UNSENDABLE.test(value)),
  );
}

/** What `validateHeaderValue` of node:http refuses. */
const UNSENDABLE = /[^\t\x20-\x7e\x80-\xff]/;

async function pause(ms: number, stop: AbortSignal): Promise<void> {
  try {
    await wait(ms, undefined, { signal: stop });
  } catch {
    throw new Stopped();
  }
}

function viewOf({ deliveryId, runId, flowId, flowName, triggerKey, receivedAt }: ForwardedDelivery, sent: Sent) {
  return { deliveryId, runId, flowId, flowName, triggerKey, receivedAt, ...sent };
}

function lineOf(
  { receivedAt, flowName, triggerKey, deliveryId }: ForwardedDelivery,
  { status, durationMs, tries }: Sent,
) {
  const time = new Date(receivedAt).toTimeString().slice(0, 8);
  const again = tries === 1 ? '' : `after ${tries} tries`;
  return [time, `${flowName}/${triggerKey}`, String(status), `${durationMs} ms`, deliveryId, again]
    .filter((part) => part !== '')
    .join('  ');
}

function defaultName(): string {
  const name = `${userInfo().username}@${hostname()}`.replace(/[^A-Za-z0-9._@-]/g, '-').slice(0, 100);
  return name.replace(/^[^A-Za-z0-9]+/, '') || 'somebody';
}

function tell(line: string): void {
  printError(`${line}\n`);
}
