import { z } from 'zod';
import { type FieldVerdict, field, type Reads, type Triggers } from './row.ts';
import { effectOf, flag, verdict } from './verdicts.ts';

const ofLimit = { holds: 'value', decides: ['rateLimit'], readBy: 'every scheme', docs: 'rateLimit' } as const;
const ofUnverified = { ...ofLimit, decides: ['unverifiedRateLimit'] } as const;

const burstEdits = {
  ladders: [[2, 4, undefined, 9, 20]],
  same: [[undefined, 5]],
} as const;

export const rateLimitFields = {
  webhookRateLimitPermitsPerSecond: field({
    ...ofLimit,
    schema: z.number().positive().describe('Deliveries a second.'),
    change: { rule: limit, edits: { ladders: [[2, 5, undefined]] } },
    plain: 1,
  }),
  webhookRateLimitBurstSize: field({
    ...ofLimit,
    schema: z.number().min(1).describe('Deliveries that may arrive at once; the rate rounded up by default.'),
    change: { rule: limit, edits: { with: { webhookRateLimitPermitsPerSecond: 5 }, ...burstEdits } },
    plain: 1,
  }),
  webhookRateLimitPerIp: field({
    ...ofLimit,
    schema: z.boolean().describe('Whether each client address has its own limit.'),
    change: flag({
      whenTrue: 'weaker',
      on: 'Each address has its own limit: there is no limit for all of them together.',
      off: 'One limit applies to all addresses.',
      ofService: ({ rateLimitPerIp }) => rateLimitPerIp,
      with: { webhookRateLimitPermitsPerSecond: 5 },
    }),
  }),
  webhookRateLimitUnverifiedPermitsPerSecond: field({
    ...ofUnverified,
    schema: z
      .number()
      .positive()
      .describe(
        'Deliveries per second from each client address (each /64 for IPv6) that reach the signature check. The other limit then counts only verified deliveries.',
      ),
    change: { rule: unverifiedLimit, edits: { ladders: [[2, 5]], other: [[undefined, 5]] } },
    plain: 1,
  }),
  webhookRateLimitUnverifiedBurstSize: field({
    ...ofUnverified,
    schema: z
      .number()
      .min(1)
      .describe('Deliveries of one address that may arrive at once; that rate rounded up by default.'),
    change: {
      rule: unverifiedLimit,
      edits: { with: { webhookRateLimitUnverifiedPermitsPerSecond: 5 }, ...burstEdits },
    },
    plain: 1,
  }),
};

interface Limit {
  readonly rate: number | undefined;
  readonly burst: number | undefined;
}

function compareLimits(before: Limit, after: Limit): 'weaker' | 'stronger' | 'same' {
  // Without a rate everything passes; without a burst, as many at once as the rate rounded up.
  const of = ({ rate = Number.POSITIVE_INFINITY, burst = Math.ceil(rate) }: Limit) => ({ rate, burst });
  const [one, other] = [of(before), of(after)];
  if (other.rate > one.rate || other.burst > one.burst) return 'weaker';
  return effectOf(one.rate + one.burst, other.rate + other.burst);
}

const PASSING = {
  weaker: 'More deliveries pass.',
  stronger: 'Fewer deliveries pass, and the count restarts.',
  same: 'As many deliveries pass as before.',
} as const;

type LimitInputs = Reads<'webhookRateLimitPermitsPerSecond' | 'webhookRateLimitBurstSize', number>;

/** The rate and the burst form one limit, and each can come from the service. */
function limit(_before: unknown, _after: unknown, { from, to, service }: Triggers<LimitInputs>): FieldVerdict {
  const of = (inputs: LimitInputs): Limit => ({
    rate: inputs.webhookRateLimitPermitsPerSecond ?? service.rateLimitPermitsPerSecond,
    burst: inputs.webhookRateLimitBurstSize ?? service.rateLimitBurstSize,
  });
  if (of(to).rate === undefined) return verdict('weaker', 'Neither the trigger nor the service has a limit.');
  const effect = compareLimits(of(from), of(to));
  return verdict(effect, PASSING[effect]);
}

type UnverifiedInputs = Reads<
  'webhookRateLimitUnverifiedPermitsPerSecond' | 'webhookRateLimitUnverifiedBurstSize',
  number
>;

/** Adding or removing it changes which deliveries the trigger's own limit counts. */
function unverifiedLimit(_before: unknown, _after: unknown, { from, to }: Triggers<UnverifiedInputs>): FieldVerdict {
  const of = (inputs: UnverifiedInputs): Limit => ({
    rate: inputs.webhookRateLimitUnverifiedPermitsPerSecond,
    burst: inputs.webhookRateLimitUnverifiedBurstSize,
  });
  if (of(to).rate === undefined) {
    return verdict(
      'other',
      'Each delivery counts for the limit of the trigger again, before its signature is checked.',
    );
  }
  if (of(from).rate === undefined) {
    return verdict(
      'other',
      'Each address has a limit before the signature check; the limit of the trigger counts only verified deliveries.',
    );
  }
  const effect = compareLimits(of(from), of(to));
  return verdict(effect, `${PASSING[effect]} It counts those of each address that reach the signature check.`);
}
