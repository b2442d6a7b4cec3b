import { z } from 'zod';
import { DAY_MS } from '../../model/clock.ts';
import { durationMs } from '../../model/duration.ts';

const [SHORTEST_MS, LONGEST_MS] = [1000, 31 * DAY_MS];

const duration = z.string().refine(isInRange, {
  error: 'is not an ISO 8601 duration from PT1S to P31D, such as PT15M or P2D',
});

/** Headers about the transport of a message, not about its content. */
export const TRANSPORT_HEADERS: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'host',
  'transfer-encoding',
]);

/** A value that may be a reference to a secret, read like those of steps. */
export const secret = z.string().min(1);

/** Fields of every kind of log. */
export const logFields = {
  every: duration
    .default('PT15M')
    .describe('How often the publisher is asked, as an ISO 8601 duration; PT15M by default.'),
  lookback: duration
    .default('P2D')
    .describe('How far back each look goes, as an ISO 8601 duration; P2D by default. What is older stays lost.'),
  acceptUnsigned: z
    .boolean()
    .optional()
    .describe(
      'Whether an Enforce trigger takes what is fetched and cannot be verified by its signature; false by default.',
    ),
  baseUrl: z
    .string()
    .refine(isBaseUrl, { error: 'is not an absolute http or https URL without user, query and fragment' })
    .optional()
    .describe('Base URL of the API, for an enterprise server; that of the publisher by default.'),
};

/** Properties of a source other than its fields, for rooms that read manifests. */
export interface LogRule {
  /** Paths of values that are secrets, as for a step's inputs: `*` matches any key. */
  readonly secrets: readonly string[];
  /** Identifies events if the trigger has no webhookEventId and its scheme signs no id: CEL over body and headers. */
  readonly eventId?: string | undefined;
  /** The publisher does not keep the bytes that it signed. */
  readonly isUnsigned?: true | undefined;
}

function isInRange(given: string): boolean {
  const ms = durationMs(given);
  return ms !== undefined && ms >= SHORTEST_MS && ms <= LONGEST_MS;
}

function isBaseUrl(given: string): boolean {
  if (!/^https?:\/\//i.test(given) || !URL.canParse(given)) return false;
  const { username, password, search, hash } = new URL(given);
  return username === '' && password === '' && search === '' && hash === '';
}
