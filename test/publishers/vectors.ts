import { readdirSync, readFileSync } from 'node:fs';
import { BUILT_IN_SCHEMES } from '../../src/webhooks/schemes/publishers/index.ts';

/** A known answer: a request, the key that signed it, and whether it must be accepted. */
export interface Vector {
  readonly scheme: string;
  readonly name: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly bodyUtf8?: string;
  readonly bodyBase64?: string;
  readonly key: string;
  readonly keyPrevious?: string;
  /** The URL that the publisher called and signed. */
  readonly url?: string;
  /** Sent by the publisher's test system. */
  readonly sandbox?: boolean;
  /** Seconds. */
  readonly now?: number;
  readonly toleranceSeconds?: number;
  readonly valid: boolean;
  /** The verdict without the freshness rule, if it differs. */
  readonly signatureValid?: boolean;
  readonly usedPreviousKey?: boolean;
  /** The publisher tests the endpoint: it gets this status and starts no run. */
  readonly handshakeStatus?: number;
}

const FOLDER = new URL('../vectors/', import.meta.url);

/** From all files except handshakes.json, which has another form. A new scheme brings a new file. */
export const VECTORS: readonly Vector[] = readdirSync(FOLDER)
  .filter((name) => name.endsWith('.json') && name !== 'handshakes.json')
  .sort()
  .flatMap((name): Vector[] => JSON.parse(readFileSync(new URL(name, FOLDER), 'utf8')));

/** The schemes of publishers. Generic is a convention of this service, without a publisher who could be asked. */
export const PUBLISHED_SCHEMES = BUILT_IN_SCHEMES.filter(({ name }) => name !== 'Generic');

export function bodyOf({ bodyUtf8, bodyBase64 }: Vector): Buffer {
  return bodyBase64 === undefined ? Buffer.from(bodyUtf8 ?? '') : Buffer.from(bodyBase64, 'base64');
}

/** Refused by the publishers' text comparison, accepted here: hex is the same bytes in either case. */
const ACCEPTED_IN_UPPER_CASE = [
  'GitHub/upper-case-hex',
  'Stripe/upper-case-hex',
  'Linear/upper-case-hex',
  'Dropbox/upper-case-hex',
];

export function isAccepted({ scheme, name, valid }: Vector): boolean {
  return valid || ACCEPTED_IN_UPPER_CASE.includes(`${scheme}/${name}`);
}

/** The status that the publisher wants. */
export function answeredStatus({ handshakeStatus = 200 }: Vector): number {
  return handshakeStatus;
}

export function isHandshake({ handshakeStatus }: Vector): boolean {
  return handshakeStatus !== undefined;
}
