import { Socket } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import pg from 'pg';

/** Connecting, and any answer, takes at most so long; then the database counts as away. */
export const ANSWER_MS = 5000;
/** A goodbye that a silent database does not return takes so long. */
const END_MS = 1000;

interface DirectOptions {
  readonly url: string;
  readonly applicationName: string;
  /** Any time where not given. */
  readonly answerMs?: number;
}

/** A connection beside the pools. */
export interface Direct {
  readonly client: pg.Client;
  /** Never rejects, and resolves soon whether or not the database answers. */
  end(): Promise<void>;
}

/** Makes a connection that is not open yet. Losing it is not an error by itself; the operations that use it fail. */
export function directClient({ url, applicationName, answerMs }: DirectOptions): Direct {
  const socket = new Socket();
  const client = new pg.Client({
    connectionString: url,
    application_name: applicationName,
    connectionTimeoutMillis: ANSWER_MS,
    // Detects a dead server even while no statement runs.
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    stream: () => socket,
    ...(answerMs === undefined ? {} : { query_timeout: answerMs }),
  });
  client.on('error', () => {});
  return {
    client,
    async end() {
      await Promise.race([client.end().catch(() => {}), setTimeout(END_MS, undefined, { ref: false })]);
      // One that hangs would keep the process from its end.
      socket.destroy();
    },
  };
}
