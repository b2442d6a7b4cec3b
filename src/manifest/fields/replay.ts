import { z } from 'zod';
import { type FieldVerdict, field, type Reads, type Triggers } from './row.ts';
import { header } from './values.ts';
import { effectOf, verdict } from './verdicts.ts';

const ofReplay = { holds: 'value', decides: ['replay'], readBy: 'every scheme', docs: 'replay' } as const;

export const replayFields = {
  webhookReplayToleranceSeconds: field({
    ...ofReplay,
    schema: z
      .int()
      .min(0)
      .describe('How far the timestamp may differ from the clock, in seconds; 0 turns the check off.'),
    // By as much, the time limit of a token or a message's signature may be passed.
    decides: ['signature', 'replay'],
    change: {
      rule: tolerance,
      edits: {
        ladders: [
          [60, 300, 0],
          [60, undefined],
        ],
        oneWay: [
          // Stays so if the service gets a tolerance.
          [undefined, 0, 'weaker'],
          [0, undefined, 'same'],
        ],
      },
    },
    plain: 300,
  }),
  webhookNonceHeader: field({
    ...ofReplay,
    schema: header.describe(
      'Header with the delivery’s id; without it, a hash of the signed content identifies the delivery.',
    ),
    change: {
      rule: nonceHeader,
      edits: {
        ladders: [['X-Id', undefined]],
        same: [['X-Id', 'x-id']],
        oneWay: [['X-Id', 'X-Other', 'weaker']],
      },
    },
    plain: 'X-Id',
  }),
};

const AGES = {
  weaker:
    'Older deliveries pass; one that was accepted long ago, and whose nonce has since expired, could be replayed.',
  stronger: 'Older deliveries fail the gate.',
  same: 'Deliveries of the same age pass.',
} as const;

function tolerance(
  before: number | undefined,
  after: number | undefined,
  { service: { replayToleranceSeconds: service } }: Triggers<unknown>,
): FieldVerdict {
  if (after === 0 && before !== 0) return verdict('weaker', 'The age of a delivery is not checked.');
  const oldest = (seconds: number) => (seconds === 0 ? Number.POSITIVE_INFINITY : seconds);
  const effect = effectOf(oldest(before ?? service), oldest(after ?? service));
  const whose = after === undefined ? 'The tolerance of the service applies, if it sets one. ' : '';
  return verdict(effect, `${whose}${AGES[effect]}`);
}

function nonceHeader(
  before: string | undefined,
  after: string | undefined,
  { from, service }: Triggers<Reads<'webhookReplayToleranceSeconds', number>>,
): FieldVerdict {
  if (before?.toLowerCase() === after?.toLowerCase()) return verdict('same', 'Header names are case-insensitive.');
  if (before === undefined) {
    const hasNonces = (from.webhookReplayToleranceSeconds ?? service.replayToleranceSeconds) > 0;
    if (!hasNonces) return verdict('stronger', 'This header identifies deliveries; a repeated value is a replay.');
    return verdict(
      'weaker',
      'This header identifies deliveries, not a hash of their signed content: a delivery that is accepted from now on could ' +
        'be replayed with other values of a header that its scheme does not sign.',
    );
  }
  return verdict(
    'weaker',
    after === undefined
      ? 'A hash identifies deliveries if a tolerance is set; otherwise nothing does, and replays may pass.'
      : 'Another header identifies deliveries; what was accepted so far is still known by a hash of its signed content.',
  );
}
