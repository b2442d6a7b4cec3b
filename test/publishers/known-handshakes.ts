import { readFileSync } from 'node:fs';
import { VECTORS } from './vectors.ts';

/** A publisher's test of an endpoint, and the answer that it wants. */
export interface KnownHandshake {
  readonly scheme: string;
  readonly name: string;
  readonly key?: string;
  readonly verifyToken?: string;
  /** Seconds. */
  readonly now?: number;
  /** Absent if the handshake is in the answer to a delivery. */
  readonly request?: { method: string; path: string; headers: Record<string, string>; body?: string };
  readonly expect: {
    readonly status?: number;
    readonly statusNot?: number;
    readonly bodyExact?: string;
    readonly bodyJson?: unknown;
    readonly headers?: Record<string, string>;
    readonly contentType?: string;
    readonly mustNotContain?: string;
  };
}

/** Handshakes whose request is among the known answers. */
const VECTOR_NAMES: Readonly<Record<string, string>> = {
  'Discord/ping': 'ping',
  'Twitch/webhook_callback_verification': 'callback-verification',
};

const listed: KnownHandshake[] = JSON.parse(
  readFileSync(new URL('../vectors/handshakes.json', import.meta.url), 'utf8'),
);

export const HANDSHAKES: readonly KnownHandshake[] = listed.map((known) => {
  const vectorName = VECTOR_NAMES[`${known.scheme}/${known.name}`];
  const vector = VECTORS.find(({ scheme, name }) => scheme === known.scheme && name === vectorName);
  if (vector === undefined) return known;
  const { method, headers, bodyUtf8: body = '', key, now } = vector;
  return { ...known, key, ...(now === undefined ? {} : { now }), request: { method, path: '/hook', headers, body } };
});
