import { Socket } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import pg from 'pg';

/** Limit for connecting and for any answer; after that the database counts as away. */
export const ANSWER_MS = 5000;
/** How long closing waits for a silent database. */
const END_MS = 1000;

interface DirectOptions {
  readonly url: string;
  readonly applicationName: string;
  /** No limit by default. */
  readonly answerMs?: number;
}

/** A connection outside of the pools. */
export interface Direct {
  readonly client: pg.Client;
  /** Also rejects if it is ended meanwhile: `client.connect()` would then never settle. */
  connect(): Promise<void>;
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
  let giveUp = (_error: Error) => {};
  const ended = new Promise<never>((_resolve, reject) => {
    giveUp = reject;
  });
  ended.catch(() => {});
  return {
    client,
    connect: () => Promise.race([client.connect().then(() => {}), ended]),
    async end() {
      giveUp(new Error('the connection was ended before it was made'));
      await Promise.race([client.end().catch(() => {}), setTimeout(END_MS, undefined, { ref: false })]);
      // A hanging connection would keep the process from ending.
      socket.destroy();
    },
  };
}
