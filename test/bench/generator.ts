import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createHistogram, performance } from 'node:perf_hooks';
import { Worker } from 'node:worker_threads';
import type { Figures, Load } from './load.ts';
import { timetable } from './timetable.ts';

/**
 * Loads a server from a separate process: one load for each message. With a rate it is an open loop: requests have a
 * timetable, and latency counts from the scheduled time, however late the request was sent. Why no library: autocannon
 * sends all requests of a second at its beginning, as fast as answers allow, and estimates the latency of those it
 * could not send; wrk has no rate. Histograms are Node's, which are HDR histograms.
 */

/** A request without an answer after this time has failed. */
const MAX_ANSWER_MS = 10_000;
const HISTOGRAM = { lowest: 1, highest: 3_600_000_000, figures: 3 };

/** One request at a time, over a keep-alive connection or a new connection for each. */
class Connection {
  readonly #address: { host: string; port: number };
  readonly #closes: boolean;
  readonly #request: Buffer;
  readonly #idAt: number;
  #socket: Socket | undefined;
  #received = '';
  /** Set while a request waits for its answer. */
  #onAnswer: ((status: number) => void) | undefined;

  constructor({ url, headers, body, closes = false }: Load) {
    const { hostname, port, pathname, host } = new URL(url);
    this.#address = { host: hostname, port: Number(port) };
    this.#closes = closes;
    const head = `POST ${pathname} HTTP/1.1\r\nhost: ${host}\r\nx-github-delivery: `;
    const others = {
      ...headers,
      ...(closes ? { connection: 'close' } : {}),
      'content-length': Buffer.byteLength(body),
    };
    const lines = Object.entries(others).map(([name, value]) => `\r\n${name}: ${value}`);
    this.#idAt = head.length;
    this.#request = Buffer.from(`${head}${randomUUID()}${lines.join('')}\r\n\r\n${body}`);
  }

  /** Connects now instead of with the first request. */
  async open(): Promise<void> {
    this.#socket = this.#connect();
    await once(this.#socket, 'connect');
  }

  /** Calls back with the status, or 0 without an answer. */
  send(onAnswer: (status: number) => void): void {
    this.#onAnswer = onAnswer;
    this.#received = '';
    this.#socket ??= this.#connect();
    // Overwriting is safe: the answer to the last request shows that its bytes were sent.
    this.#request.write(randomUUID(), this.#idAt, 'latin1');
    this.#socket.write(this.#request);
  }

  close(): void {
    this.#socket?.destroy();
    this.#socket = undefined;
  }

  #connect(): Socket {
    const socket = connect({ ...this.#address, noDelay: true });
    socket.setEncoding('latin1');
    socket.setTimeout(MAX_ANSWER_MS, () => socket.destroy());
    socket.on('error', () => {});
    socket.on('data', (chunk: string) => {
      this.#received += chunk;
      const status = statusOf(this.#received);
      if (status === undefined) return;
      if (this.#closes) this.close();
      this.#answered(status);
    });
    socket.on('close', () => {
      if (this.#socket !== socket) return;
      this.#socket = undefined;
      this.#answered(0);
    });
    return socket;
  }

  #answered(status: number): void {
    const onAnswer = this.#onAnswer;
    this.#onAnswer = undefined;
    onAnswer?.(status);
  }
}

/** The status of a complete answer; otherwise undefined. */
function statusOf(answer: string): number | undefined {
  const headEnd = answer.indexOf('\r\n\r\n');
  if (headEnd === -1) return undefined;
  const bodyAt = headEnd + 4;
  const [, length] = /\r\ncontent-length: (\d+)/i.exec(answer) ?? [];
  const isWhole = length === undefined ? answer.endsWith('0\r\n\r\n') : answer.length >= bodyAt + Number(length);
  return isWhole ? Number(answer.slice(9, 12)) : undefined;
}

/** Counts answers and computes the figures of a load. */
function createRecord() {
  const latency = createHistogram(HISTOGRAM);
  const statuses = new Map<number, number>();
  const startedAt = performance.now();
  let endedAt = startedAt;
  return {
    startedAt,
    add(status: number, dueAt: number): void {
      endedAt = performance.now();
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      latency.record(Math.max(1, Math.round((endedAt - dueAt) * 1000)));
    },
    figures(): Figures {
      const answered = [...statuses].filter(([status]) => status !== 0);
      const [[status, requests] = [0, 0]] = answered.sort(([, one], [, other]) => other - one);
      const at = (share: number) => latency.percentile(share) / 1000;
      const failed = latency.count - requests;
      const requestsPerSecond = requests / ((endedAt - startedAt) / 1000);
      return { requests, requestsPerSecond, p50Ms: at(50), p99Ms: at(99), p999Ms: at(99.9), failed, status };
    },
  };
}

/** Each connection sends its next request after the answer to the last one, until count or time is reached. */
async function closedLoop(load: Load): Promise<Figures> {
  const { connections, seconds, count = Number.POSITIVE_INFINITY } = load;
  const record = createRecord();
  const until = record.startedAt + seconds * 1000;
  let sent = 0;
  const lane = () =>
    new Promise<void>((over) => {
      const connection = new Connection(load);
      const next = () => {
        const now = performance.now();
        if (sent >= count || now >= until) {
          connection.close();
          over();
          return;
        }
        sent += 1;
        connection.send((status) => {
          record.add(status, now);
          next();
        });
      };
      next();
    });
  await Promise.all(Array.from({ length: connections }, lane));
  return record.figures();
}

/** Sends each request on time over a free connection; if none is free, the request waits and its latency grows. */
async function openLoop(load: Load, rate: number): Promise<Figures> {
  const { count, dueAt, dueUntil } = timetable(rate, load.seconds);
  const free = Array.from({ length: load.connections }, () => new Connection(load));
  const all = [...free];
  if (load.closes !== true) await Promise.all(all.map((connection) => connection.open()));
  const clock = await openClock(rate);
  const record = createRecord();
  const ended = new Promise<void>((over) => {
    let sent = 0;
    let answered = 0;
    const sendDue = () => {
      const due = dueUntil(performance.now() - record.startedAt);
      while (sent < due) {
        // The connection that has been idle longest, so that all are used.
        const connection = free.shift();
        if (connection === undefined) return;
        const scheduledAt = record.startedAt + dueAt(sent);
        sent += 1;
        connection.send((status) => {
          record.add(status, scheduledAt);
          answered += 1;
          free.push(connection);
          if (answered === count) over();
          else sendDue();
        });
      }
    };
    clock.on('message', sendDue);
    // After the record's start: a tick that comes before its request is due would find nothing to send.
    clock.postMessage(Number(process.hrtime.bigint()) / 1e6);
  });
  await ended;
  await clock.terminate();
  for (const connection of all) connection.close();
  return record.figures();
}

/** The event loop's timers are a millisecond late; a thread that only waits is not. It gets the start by message. */
const CLOCK = `
const { parentPort, workerData: intervalMs } = require('node:worker_threads');
const cell = new Int32Array(new SharedArrayBuffer(4));
parentPort.once('message', (startedAt) => {
  for (let tick = 0; ; tick += 1) {
    const now = Number(process.hrtime.bigint()) / 1e6;
    Atomics.wait(cell, 0, 0, Math.max(0, startedAt + tick * intervalMs - now));
    parentPort.postMessage(tick);
  }
});`;
const MIN_TICK_MS = 0.25;

/** Sends a message whenever one or more requests are due. */
async function openClock(rate: number): Promise<Worker> {
  const clock = new Worker(CLOCK, { eval: true, workerData: Math.max(MIN_TICK_MS, 1000 / rate) });
  await once(clock, 'online');
  return clock;
}

process.on('message', async (load: Load) => {
  const figures = await (load.rate === undefined ? closedLoop(load) : openLoop(load, load.rate));
  process.send?.(figures);
});
