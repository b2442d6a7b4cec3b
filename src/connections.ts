import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Logger } from 'pino';
import { INERT_HEADERS } from './model/inert-content.ts';
import type { Metrics } from './telemetry/metrics.ts';
import { addressGroup, compileAddresses } from './webhooks/networks/addresses.ts';

// Not imported: see webhooks/answers.ts.
const { STATUS_CODES } = process.getBuiltinModule('node:http');

/**
 * Sockets that one address can hold open at once; an IPv6 /64 counts as one. No publisher comes near this; without it,
 * one machine could use up the process' file descriptors.
 */
const MAX_SOCKETS_OF_ONE_ADDRESS = 1024;

/** How long requests can still arrive after a stop began. */
const STOP_RECEIVE_MS = 2000;
const SWEEP_MS = 50;

/** The bytes of an answer on a connection without a request. */
function closingAnswer(statusCode: number, message: string, reason?: string): string {
  const error = STATUS_CODES[statusCode] ?? 'Error';
  const body = JSON.stringify({ statusCode, error, message, reason });
  return [
    `HTTP/1.1 ${statusCode} ${error}`,
    'content-type: application/json; charset=utf-8',
    ...Object.entries(INERT_HEADERS).map(([name, value]) => `${name}: ${value}`),
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
    '',
    body,
  ].join('\r\n');
}

const STOPPING_ANSWER = closingAnswer(503, 'The service is stopping; send it again', 'store_unavailable');
const unreadable = (statusCode: number, message: string) => [statusCode, closingAnswer(statusCode, message)] as const;
const MALFORMED_ANSWER = unreadable(400, 'Client Error');
const UNREADABLE_ANSWERS: Readonly<Record<string, typeof MALFORMED_ANSWER>> = {
  ERR_HTTP_REQUEST_TIMEOUT: unreadable(408, 'Client Timeout'),
  HPE_HEADER_OVERFLOW: unreadable(431, 'Exceeded maximum allowed HTTP header size'),
};

/** Called for each request that is answered before any route sees it. */
type OnUnreadable = (statusCode: number, address: string) => void;

/** Answers bytes that Node cannot read as a request; their path is unknown. */
export function answerUnreadable(onUnreadable: OnUnreadable) {
  return ({ code = '' }: NodeJS.ErrnoException, socket: Socket): void => {
    if (code === 'ECONNRESET' || socket.destroyed) return;
    const [statusCode, answer] = UNREADABLE_ANSWERS[code] ?? MALFORMED_ANSWER;
    onUnreadable(statusCode, socket.remoteAddress ?? '');
    if (socket.writable) socket.write(answer);
    socket.destroy();
  };
}

/** Treats an empty `Expect` as absent, and refuses every other one that Node does not know. */
export function answerExpectations(server: Server, onUnreadable: OnUnreadable): void {
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    if (request.headers.expect?.trim() === '') {
      server.emit('request', request, response);
      return;
    }
    onUnreadable(417, request.socket.remoteAddress ?? '');
    response.writeHead(417, { ...INERT_HEADERS, connection: 'close' }).end();
  });
}

/** Counts and logs unreadable requests. */
export function unreadableNotes({ logger, metrics }: UnreadableServices): OnUnreadable {
  return (statusCode, address) => {
    metrics.requestsUnreadable.inc({ status: String(statusCode) });
    logger.warn({ cause: 'unreadable_request', statusCode, address }, 'a request that cannot be read was refused');
  };
}

interface UnreadableServices {
  readonly logger: Pick<Logger, 'warn'>;
  readonly metrics: Pick<Metrics, 'requestsUnreadable'>;
}

interface Connections {
  /**
   * Closes idle sockets until the server has closed, and after a moment those with an incomplete request: Node stops
   * timing requests out when a server closes, so a half-sent one would delay the stop for ever.
   */
  sweepUntil(closed: Promise<unknown>): Promise<void>;
}

interface ConnectionLimits {
  /** Whether many senders can come from the address: a proxy of the operator's, or this machine. */
  readonly isShared: (address: string) => boolean;
  readonly onRefused: (address: string) => void;
  readonly maxSocketsOfOneAddress?: number;
}

// Checked for each connection: compiled ranges answer in a tenth of the time that it takes to parse the address.
const THIS_MACHINE = compileAddresses(['127.0.0.0/8', '::1'], 'loopback');

/** Addresses that many senders can share: this machine, and those that `isShared` accepts. */
export function thisMachineOr(isShared: (address: string) => boolean): (address: string) => boolean {
  return (address) => THIS_MACHINE.match(address) !== undefined || isShared(address);
}

/** Watches the sockets of a server. Call it before the server listens. */
export function watchConnections(server: Server, limits: ConnectionLimits): Connections {
  const requests = new Map<Socket, IncomingMessage | undefined>();
  limitSockets(server, limits);
  server.on('connection', (socket) => {
    requests.set(socket, undefined);
    socket.once('close', () => requests.delete(socket));
  });
  server.on('request', (request, response) => {
    const { socket } = request;
    requests.set(socket, request);
    response.once('close', () => {
      if (requests.get(socket) === request) requests.set(socket, undefined);
    });
  });
  const cutUnfinished = () => {
    for (const [socket, request] of requests) {
      if (request?.complete !== true && socket.writable) socket.end(STOPPING_ANSWER, () => socket.destroy());
    }
  };
  return {
    async sweepUntil(closed) {
      const startedAt = performance.now();
      const sweep = setInterval(() => {
        server.closeIdleConnections();
        if (performance.now() - startedAt >= STOP_RECEIVE_MS) cutUnfinished();
      }, SWEEP_MS);
      try {
        await closed;
      } finally {
        clearInterval(sweep);
      }
    },
  };
}

function limitSockets(server: Server, { isShared, onRefused, ...limits }: ConnectionLimits): void {
  const { maxSocketsOfOneAddress: max = MAX_SOCKETS_OF_ONE_ADDRESS } = limits;
  const open = new Map<string, number>();
  server.on('connection', (socket) => {
    const address = socket.remoteAddress ?? '';
    if (isShared(address)) return;
    const group = addressGroup(address);
    const count = (open.get(group) ?? 0) + 1;
    open.set(group, count);
    socket.once('close', () => {
      const left = (open.get(group) ?? 0) - 1;
      if (left > 0) open.set(group, left);
      else open.delete(group);
    });
    if (count <= max) return;
    if (count === max + 1) onRefused(address);
    socket.destroy();
  });
}
