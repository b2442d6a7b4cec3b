import { readFileSync } from 'node:fs';

/** A known answer: a request, the key it was signed with, and whether it is to be accepted. */
export interface Vector {
  readonly scheme: string;
  readonly name: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly bodyUtf8?: string;
  readonly bodyBase64?: string;
  readonly key: string;
  readonly keyPrevious?: string;
  /** What the publisher called and signed. */
  readonly url?: string;
  /** Seconds. */
  readonly now?: number;
  readonly toleranceSeconds?: number;
  readonly valid: boolean;
  /** The verdict without the rule of freshness, where it differs. */
  readonly signatureValid?: boolean;
  readonly usedPreviousKey?: boolean;
}

const read = (name: string): Vector[] =>
  JSON.parse(readFileSync(new URL(`../vectors/${name}.json`, import.meta.url), 'utf8'));

export const VECTORS: readonly Vector[] = [...read('publisher-vectors'), ...read('further-publishers')];

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

/** Answered 200 and started no run: they are questions about the endpoint. The one of ssl_check is unsigned and so not valid. */
const HANDSHAKES = [
  'Slack/url-verification-is-signed',
  'Slack/ssl-check-unsigned',
  'Zoom/url-validation-is-signed',
  'Discord/ping',
  'Discord/webhook-events-ping',
  'Twitch/callback-verification',
];

/** What the publisher wants to be answered. */
export function answeredStatus({ scheme, name }: Vector): number {
  return `${scheme}/${name}` === 'Discord/webhook-events-ping' ? 204 : 200;
}

export function isHandshake({ scheme, name }: Vector): boolean {
  return HANDSHAKES.includes(`${scheme}/${name}`);
}
