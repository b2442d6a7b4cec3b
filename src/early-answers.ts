import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import { maskedPlace } from './config/database.ts';
import type { Settings } from './config/settings-schema.ts';
import { answerUnreadable } from './connections.ts';
import { listenAt } from './listening.ts';
import { INERT_HEADERS } from './model/inert-content.ts';
import { DELIVERY_HEADER } from './webhooks/answers.ts';

/** Answers HTTP for a start that has no database yet. */
export interface EarlyAnswers {
  /** Reports why the start waits. The first call starts to listen. */
  tell(error: Error): Promise<void>;
  /** Reports that the schema of the database is being changed. */
  migrating(names: readonly string[]): Promise<void>;
  /** Frees the port for the service. */
  close(): Promise<void>;
}

/**
 * A start that waits for its database reports that it is alive, so that its supervisor lets it wait, but accepts
 * nothing. It only answers what needs no flows: everything else would need the database.
 */
export function createEarlyAnswers({ settings, logger }: { settings: Settings; logger: Logger }): EarlyAnswers {
  const beganAt = performance.now();
  let server: Server | undefined;
  let unready: Unready = AWAY;
  const begin = async (why: Unready) => {
    unready = why;
    server ??= await listen(settings, (request, response) => answer(request, response, { ...unready, logger }));
  };
  return {
    async tell(error) {
      await begin(AWAY);
      const { variable, place } = maskedPlace(settings);
      logger.warn(
        { cause: 'database_away', waitedMs: Math.round(performance.now() - beganAt) },
        `waiting for the database at ${place} (${variable}): ${error.message}; deliveries get 503 until it answers`,
      );
    },
    async migrating(names) {
      await begin({ message: `The database is being migrated: ${names.join(', ')}`, reason: 'migrating' });
      logger.info({ migrations: names }, 'migrating the database; deliveries get 503 until that is done');
    },
    async close() {
      const closing = server;
      if (closing === undefined) return;
      await new Promise<void>((resolve) => {
        closing.close(() => resolve());
        closing.closeAllConnections();
      });
    },
  };
}

async function listen({ host, port }: Settings, answer: RequestListener): Promise<Server> {
  const server = createServer({ headersTimeout: 10_000, requestTimeout: 30_000 }, answer);
  server.on(
    'clientError',
    answerUnreadable(() => {}),
  );
  await listenAt({ host, port }, (place) => {
    server.listen(place);
    return once(server, 'listening');
  });
  return server;
}

interface Unready {
  readonly message: string;
  readonly reason: 'store_unavailable' | 'migrating';
}

const AWAY: Unready = { message: 'The store is unavailable; try again', reason: 'store_unavailable' };

function answer(
  request: IncomingMessage,
  response: ServerResponse,
  { logger, ...unready }: Unready & { readonly logger: Logger },
): void {
  const path = request.url?.split('?')[0];
  const deliveryId = path?.startsWith('/flows/api/webhook/') === true ? randomUUID() : undefined;
  if (deliveryId !== undefined)
    logger.warn({ cause: 'starting', deliveryId, ...unready }, 'a delivery got 503: the service is starting');
  const isLive = request.method === 'GET' && path === '/health/live';
  // A delivery's reason comes from a closed list without migrations.
  const why = path === '/health/ready' ? unready : AWAY;
  const [statusCode, body] = isLive
    ? [200, { status: 'live' }]
    : [503, { statusCode: 503, error: 'Service Unavailable', ...why }];
  // A sender that is still sending its body would mistake an early answer for a broken connection.
  request.resume().on('end', () => {
    // The connection closes, because the service itself takes the next request.
    response.writeHead(statusCode, {
      'content-type': 'application/json; charset=utf-8',
      connection: 'close',
      ...INERT_HEADERS,
      ...(deliveryId !== undefined && { [DELIVERY_HEADER]: deliveryId }),
    });
    response.end(JSON.stringify(body));
  });
}
