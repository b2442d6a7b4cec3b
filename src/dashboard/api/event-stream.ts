import type { Writable } from 'node:stream';
import type { Logger } from 'pino';
import { z } from 'zod';
import { HttpError } from '../../errors.ts';
import { greediestBut } from '../../model/greediest.ts';
import type { LiveEvent, LiveEvents } from '../../telemetry/events.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { actorOf } from '../actors.ts';
import { unknownId } from '../answer.ts';
import { parameter } from '../input.ts';
import { route, textAnswer } from '../route.ts';
import { createServiceWatch, type ServiceWatch } from '../service-watch.ts';
import { type ApiRoutes, servicePart } from '../services.ts';
import { canSee, type Sight, sightOf } from '../sight.ts';

/** The readers of the event stream, with limits for the resources that they use together. */
interface EventStreams {
  /**
   * Throws, before anything of the answer is sent, if the readers are at the limit. Credentials share the room: the
   * newest stream of the credential with most streams makes room for another one's.
   */
  requireRoom(actor: string): void;
  /** Sends a reader the events that it wants, until its stream closes or `leave` is called. */
  add(reader: NewReader): Reader;
  /** Sends an event to all readers that want it. */
  tell(event: LiveEvent): void;
  /** Ends every stream. */
  end(): void;
}

interface NewReader {
  readonly stream: Writable;
  /** The reader's name, for the log. */
  readonly actor: string;
  /** The form of an event for this reader; undefined for nothing. */
  readonly told: (event: LiveEvent) => SentEvent | undefined;
}

interface Reader {
  send(text: string): void;
  leave(): void;
}

/** Limits for waiting events, in bytes; the sockets hold some 64 KiB each in addition. */
export const STREAM_LIMITS = {
  readers: 200,
  readersOfOne: 50,
  bytesOfOne: 1_048_576,
  bytes: 16_777_216,
  leaveMs: 5_000,
};

interface StreamServices {
  readonly live: Pick<LiveEvents, 'subscribe'>;
  readonly metrics: Pick<Metrics, 'eventReaders' | 'eventReadersRefused'>;
  readonly logger: Logger;
  readonly limits?: typeof STREAM_LIMITS;
  /** Called for the first reader, and when the last one leaves. */
  readonly onRead?: (isRead: boolean) => void;
}

interface OpenReader extends NewReader {
  /** Bytes that wait until the stream has drained. */
  waiting: Buffer[];
  bytes: number;
}

/** Sent to a reader that falls behind. It can connect again, and then read what it missed in the lists. */
const TOO_SLOW = 'event: stream.ended\ndata: {"reason":"too_slow"}\n\n';

const TOO_MANY = 'event: stream.ended\ndata: {"reason":"too_many"}\n\n';

/**
 * Sends events to readers as Server-Sent Events. Unread events wait here, within one limit per reader and one for all;
 * when a limit is reached, the stream of the slowest reader is ended.
 */
export function createEventStreams({
  live,
  metrics,
  logger,
  limits = STREAM_LIMITS,
  onRead = () => {},
}: StreamServices): EventStreams {
  const readers = new Set<OpenReader>();
  let waitingBytes = 0;
  let unsubscribe = () => {};

  const forget = (reader: OpenReader) => {
    if (!readers.delete(reader)) return;
    waitingBytes -= reader.bytes;
    reader.waiting = [];
    metrics.eventReaders.set(readers.size);
    if (readers.size > 0) return;
    unsubscribe();
    onRead(false);
  };
  const leave = (reader: OpenReader, last?: string) => {
    forget(reader);
    reader.stream.end(last);
    // A reader that does not read does not see the end either.
    const timer = setTimeout(() => reader.stream.destroy(), limits.leaveMs).unref();
    reader.stream.once('close', () => clearTimeout(timer));
  };
  const cutSlowest = () => {
    const [slowest] = [...readers].sort((one, other) => other.bytes - one.bytes);
    if (slowest === undefined) return;
    const { actor, bytes } = slowest;
    metrics.eventReadersRefused.inc({ reason: 'too_slow' });
    logger.warn(
      { actor, waitingBytes: bytes, readers: readers.size },
      'ended an event stream that was read too slowly',
    );
    leave(slowest, TOO_SLOW);
  };
  const write = (reader: OpenReader, bytes: Buffer) => {
    if (!readers.has(reader)) return;
    if (!reader.stream.writableNeedDrain && reader.waiting.length === 0) return void reader.stream.write(bytes);
    reader.waiting.push(bytes);
    reader.bytes += bytes.byteLength;
    waitingBytes += bytes.byteLength;
    if (reader.bytes > limits.bytesOfOne || waitingBytes > limits.bytes) cutSlowest();
  };
  const drain = (reader: OpenReader) => {
    while (!reader.stream.writableNeedDrain) {
      const bytes = reader.waiting.shift();
      if (bytes === undefined) return;
      reader.bytes -= bytes.byteLength;
      waitingBytes -= bytes.byteLength;
      reader.stream.write(bytes);
    }
  };
  // Formatted once, so that all waiting readers share one buffer.
  const tell = (event: LiveEvent) => {
    let bytes: Buffer | undefined;
    for (const each of [...readers]) {
      const told = each.told(event);
      if (told === undefined) continue;
      if (told !== event) {
        write(each, Buffer.from(formatEvent(told)));
        continue;
      }
      bytes ??= Buffer.from(formatEvent(event));
      write(each, bytes);
    }
  };

  return {
    tell,
    requireRoom(actor) {
      if (readers.size < limits.readers) return;
      metrics.eventReadersRefused.inc({ reason: 'too_many' });
      const streams = [...readers].map((reader) => ({ owner: reader.actor, size: 1, reader }));
      const greediest = greediestBut({ owner: actor, size: 1 }, streams);
      const newest = streams.findLast(({ owner }) => owner === greediest)?.reader;
      if (newest === undefined) {
        const told = `${limits.readers} event streams are open; close one, or try again later`;
        throw new HttpError('too_many_streams', told);
      }
      logger.warn({ actor: newest.actor }, 'ended an event stream, to let another credential read');
      leave(newest, TOO_MANY);
    },
    add(given) {
      const reader = { ...given, waiting: [], bytes: 0 };
      readers.add(reader);
      metrics.eventReaders.set(readers.size);
      if (readers.size === 1) {
        unsubscribe = live.subscribe(tell);
        onRead(true);
      }
      reader.stream.on('drain', () => drain(reader));
      reader.stream.once('close', () => forget(reader));
      return { send: (text) => write(reader, Buffer.from(text)), leave: () => leave(reader) };
    },
    end() {
      for (const reader of [...readers]) leave(reader);
    },
  };
}

/** The sent part of an event. */
export type SentEvent = Pick<LiveEvent, 'type' | 'data'>;

function formatEvent({ type, data }: SentEvent): string {
  return `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
}

/**
 * The form of an event for a reader limited to some flows: nothing about other flows; of the service, only whether it
 * is ready. The run that another process changed is unknown, so that event does not name one.
 */
function toldOf(event: LiveEvent, sight: Sight, watch: ServiceWatch): SentEvent | undefined {
  const { type, data } = event;
  if (type === 'service.state') return { type, data: { ...data, message: null, refused: null } };
  const watched = watch.dataIn(sight, type);
  if (watched !== undefined) return { type, data: watched };
  if (type === 'run.changed') return { type, data: {} };
  return sight.has(event.flowId) ? event : undefined;
}

const HEARTBEAT_MS = 15_000;

/** Sends events of runs, steps and deliveries, and the state of the service, as Server-Sent Events. */
const eventStreamRoute: ApiRoutes = (app, services) => {
  const { logins } = services;
  const streams = createEventStreams({
    ...services,
    onRead: (isRead) => (isRead ? watch.start() : watch.stop()),
  });
  const watch = createServiceWatch(services, streams.tell);
  // A stream never ends by itself, and a stopping server waits for every answer.
  app.addHook('preClose', async () => streams.end());

  app.get(
    '/flows/api/events/stream',
    {
      ...route('service', {
        operationId: 'streamEvents',
        limit: 'filtered',
        summary: 'Runs, steps and deliveries as they happen, and whether the service is ready, as Server-Sent Events',
        description:
          '`service.state` is sent every 1.5 s: `ready`, the `reason` and `message` if it is not, and `refused`, the deliveries that got 503 in the last minute; `attention.changed` every 5 s, with the number of `errors` and `warnings` in the attention list. At most 200 streams are open at once; a further one gets 503 `too_many_streams`, unless another credential has more of them: its newest one ends. A reader that falls 1 MiB behind gets `event: stream.ended`, and the stream ends.',
        query: z.strictObject({ runId: parameter.optionalGuid() }),
        answer: textAnswer('text/event-stream'),
      }), // A HEAD request would wait for an answer that never ends.
      exposeHeadRoute: false,
    },
    async (request, reply) => {
      const { runId } = request.query;
      const actor = actorOf(request);
      const sight = sightOf(request, services);
      if (sight !== undefined && runId !== undefined && !(await canSee(runId, sight, services))) {
        throw unknownId('run', runId);
      }
      streams.requireRoom(actor.name);
      const headers = Object.entries(reply.getHeaders()).filter(([, value]) => value !== undefined);
      reply.hijack();
      const response = reply.raw;
      response.writeHead(200, {
        ...Object.fromEntries(headers.map(([name, value]) => [name, value ?? ''])),
        'content-type': 'text/event-stream; charset=utf-8',
        'cache-control': 'no-store',
        'x-accel-buffering': 'no',
      });
      response.write(': open\n\n');
      const wants = (event: LiveEvent) =>
        runId === undefined || event.runId === runId || (event.type === 'run.changed' && event.runId === null);
      const told = (event: LiveEvent) => {
        if (!wants(event)) return undefined;
        // A requested run is in sight.
        return sight === undefined || event.runId === runId ? event : toldOf(event, sight, watch);
      };
      const { send, leave } = streams.add({ stream: response, actor: actor.name, told });
      const state = watch.state === undefined ? undefined : told(watch.state);
      if (state !== undefined) send(formatEvent(state));
      const unwatch = logins?.whenOver(actor, leave);
      const heartbeat = setInterval(() => {
        send(': still here\n\n');
        // Another process may have ended the session. While the store is away this is unknown, and the stream
        // continues.
        logins?.holds(actor).then(
          (holds) => holds || leave(),
          () => {},
        );
      }, HEARTBEAT_MS).unref();
      response.once('close', () => {
        clearInterval(heartbeat);
        unwatch?.();
      });
    },
  );
};

export const eventStream = servicePart({ name: 'event-stream', routes: [eventStreamRoute] });
