import { setTimeout as wait } from 'node:timers/promises';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';

/** The store cannot be used now. Answered with 503, so that the publisher tries again. */
export class StoreUnavailableError extends Error {
  /** No later call of this process will succeed either. */
  readonly isForGood: boolean;
  /** The database is away. The store logs when it goes and when it is back; failures meanwhile are logged at debug. */
  readonly isAway: boolean;
  constructor(
    message: string,
    {
      isForGood = false,
      isAway = false,
      ...options
    }: ErrorOptions & { readonly isForGood?: boolean; readonly isAway?: boolean } = {},
  ) {
    super(message, options);
    this.name = 'StoreUnavailableError';
    this.isForGood = isForGood;
    this.isAway = isAway;
  }
}

/** Times cannot be stored now: the clocks that the service could use disagree. */
export class UnfitClockError extends StoreUnavailableError {
  constructor() {
    // The heartbeat logs when this begins and ends, as for a database that is away.
    super('The clock of this machine is wrong or was set; try again', { isAway: true });
    this.name = 'UnfitClockError';
  }
}

const TRY_AGAIN_MS = 1000;

/**
 * Runs `work`, which needs the store, until it succeeds; while the store fails, `goesOn` decides whether to try again.
 * Everything before a failure must be safe to do twice.
 */
export async function untilStored<Value>(
  work: () => Promise<Value>,
  goesOn: (error: StoreUnavailableError) => boolean | Promise<boolean>,
): Promise<Value> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof StoreUnavailableError) || !(await goesOn(error))) throw error;
    }
    await wait(TRY_AGAIN_MS);
  }
}

/** A manifest folder that cannot be served; `lines` has one line per mistake. */
export class ManifestsError extends Error {
  readonly lines: readonly string[];
  constructor(lines: readonly string[]) {
    super(`The manifests cannot be loaded:\n${lines.map((line) => `  ${line}`).join('\n')}`);
    this.name = 'ManifestsError';
    this.lines = lines;
  }
}

/** Stops a start whose changed manifests were refused, if the settings say so. */
export class DeploysRefusedError extends Error {
  constructor(lines: readonly string[]) {
    super(`The manifests cannot be deployed:\n${lines.map((line) => `  ${line}`).join('\n')}`);
    this.name = 'DeploysRefusedError';
  }
}

const PHRASES: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  409: 'Conflict',
  413: 'Payload Too Large',
  415: 'Unsupported Media Type',
  429: 'Too Many Requests',
  503: 'Service Unavailable',
};

/** Each refusal code of the dashboard, which is the answer's `reason`, with the HTTP status. */
const REFUSALS = {
  invalid_json: 400,
  invalid_request: 400,
  unauthorized: 401,
  built_in_flow: 403,
  cross_site: 403,
  flow_disabled: 403,
  host_not_allowed: 403,
  insufficient_scope: 403,
  limited_to_flows: 403,
  proxy_not_allowed: 403,
  revision_removed: 404,
  unknown_consumer: 404,
  unknown_delivery: 404,
  unknown_flow: 404,
  unknown_host: 404,
  unknown_revision: 404,
  unknown_run: 404,
  unknown_schedule: 404,
  unknown_signal: 404,
  unknown_step: 404,
  unknown_trigger: 404,
  consumer_differs: 409,
  cursor_moved: 409,
  deliveries_held: 409,
  flow_in_folder: 409,
  flow_in_use: 409,
  folder_unreadable: 409,
  idempotency_conflict: 409,
  not_failed: 409,
  not_holding: 409,
  nothing_to_retry: 409,
  order_deadlock: 409,
  rehearsal_running: 409,
  revision_in_force: 409,
  run_ended: 409,
  signal_duplicate: 409,
  too_many_consumers: 409,
  too_many_logins: 429,
  flow_unreadable: 503,
  stopping: 503,
  too_many_streams: 503,
} as const;

/** An answer that a route gives by throwing: a refusal by its code, or only a status if programs need no code. */
export class HttpError extends Error {
  readonly statusCode: number;
  readonly reason: string | undefined;
  constructor(refusal: keyof typeof REFUSALS | 404 | 405 | 415, message: string) {
    super(message);
    this.name = 'HttpError';
    this.statusCode = typeof refusal === 'number' ? refusal : REFUSALS[refusal];
    this.reason = typeof refusal === 'number' ? undefined : refusal;
  }
}

/** Answers every error in one shape. Unexpected errors are logged in full; the response reveals nothing of them. */
export function errorHandler(
  error: FastifyError | HttpError,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  if (error instanceof UnfitClockError) {
    return send(reply, { statusCode: 503, message: error.message, reason: 'clock_offset' });
  }
  if (error instanceof StoreUnavailableError) {
    request.log.error({ err: error }, 'the store is unavailable');
    return send(reply, {
      statusCode: 503,
      message: 'The store is unavailable; try again',
      reason: 'store_unavailable',
    });
  }
  const statusCode = error.statusCode ?? 500;
  if (statusCode >= 500 && !(error instanceof HttpError)) {
    request.log.error({ err: error, method: request.method, url: request.routeOptions.url }, 'a request failed');
    return send(reply, { statusCode: 500, message: 'Something went wrong in Sluice; the log has the details' });
  }
  return send(reply, { statusCode, message: error.message, reason: reasonOf(error, statusCode, request.url) });
}

/** Fastify itself refuses unreadable requests, such as those with a malformed URL or length. */
function reasonOf(error: FastifyError | HttpError, statusCode: number, url: string): string | undefined {
  if (error instanceof HttpError) return error.reason;
  // Publishers only get reasons from a closed list, which is about deliveries that were read.
  return statusCode === 400 && !url.startsWith(RECEIVE) ? 'invalid_request' : undefined;
}

const RECEIVE = '/flows/api/webhook/';

/** Answers unknown routes in the same shape. */
export function notFoundHandler(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  return send(reply, { statusCode: 404, message: `There is no ${request.method} ${request.url.split('?')[0]}` });
}

function send(
  reply: FastifyReply,
  { statusCode, message, reason }: { statusCode: number; message: string; reason?: string | undefined },
): FastifyReply {
  const error = PHRASES[statusCode] ?? (statusCode >= 500 ? 'Internal Server Error' : 'Bad Request');
  return reply.code(statusCode).send({ statusCode, error, message, ...(reason === undefined ? {} : { reason }) });
}
