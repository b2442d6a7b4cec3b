import { z } from 'zod';
import { DAY_MS } from '../../model/clock.ts';
import { durationMs } from '../../model/duration.ts';

const [SHORTEST_MS, LONGEST_MS] = [1000, 31 * DAY_MS];

const duration = z.string().refine(isInRange, {
  error: 'is not an ISO 8601 duration from PT1S to P31D, such as PT15M or P2D',
});

/** About the way that a message takes, not about what is sent. */
export const TRANSPORT_HEADERS: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'host',
  'transfer-encoding',
]);

/** A value that may be a secret: it is read as those of steps are. */
export const secret = z.string().min(1);

/** What every source of a publisher's log has. */
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

/** What a source has besides its fields, for rooms that read manifests. */
export interface LogRule {
  /** Paths of values that are secrets, as of a step's inputs: `*` stands for any key. */
  readonly secrets: readonly string[];
  /** Tells events apart where the trigger has no webhookEventId and its scheme signs no id: CEL over body and headers. */
  readonly eventId?: string | undefined;
  /** The publisher does not keep what it signed. */
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
