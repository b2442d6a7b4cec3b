import type { SignatureSpec } from './spec.ts';

/** What cannot be changed without breaking the signature: only that tells a replay. */
export interface Coverage {
  readonly body: boolean;
  readonly timestamp: boolean;
  readonly id: boolean;
}

export const GRADES = ['A', 'B', 'C', 'D', 'E', 'F'] as const;
export type Grade = (typeof GRADES)[number];

/** What somebody who captured one delivery can do with it, where the trigger makes use of all that is signed. */
export const CAPTURED: Readonly<Record<Grade, string>> = {
  A: 'Body, timestamp and id are signed: with a tolerance a captured delivery cannot be used again, and a retry of the publisher is recognised by its id.',
  B: 'Body and timestamp are signed: with a tolerance a captured delivery cannot be used again. A retry that is signed anew counts as a new delivery.',
  C: 'Body and id are signed: a captured delivery passes again once its nonce is no longer kept.',
  D: 'Only the body is signed: a captured delivery passes again under another id or, without a nonce header, once its nonce is no longer kept.',
  E: 'The body is not signed: with a tolerance a captured signature passes once, and whoever sends it first chooses the body.',
  F: 'Nothing is signed: anybody can send anything.',
};

export function coverageOf(spec: SignatureSpec): Coverage {
  return {
    body: coversBody(spec),
    timestamp: spec.timestamp !== undefined,
    id: spec.payload.startsWithDeliveryId === true || spec.payload.token !== undefined,
  };
}

/** Null where an operator's code builds what is signed: only the code knows what that covers. */
export function gradeOf(spec: SignatureSpec): Grade | null {
  if (spec.payload.strategy === 'Custom') return null;
  const { body, timestamp, id } = coverageOf(spec);
  if (!body) return timestamp || id ? 'E' : 'F';
  if (timestamp) return id ? 'A' : 'B';
  return id ? 'C' : 'D';
}

/** Whether a change of the body is certain to break the signature; an operator's own builder promises nothing. */
export function coversBody({ payload }: SignatureSpec): boolean {
  return payload.strategy !== 'TimestampPlusToken' && payload.strategy !== 'Custom';
}

/** Whether the URL that the publisher called is among the signed bytes. */
export function signsUrl({ payload: { strategy } }: SignatureSpec): boolean {
  return strategy === 'UrlPlusBody' || strategy === 'UrlPlusSortedForm';
}
